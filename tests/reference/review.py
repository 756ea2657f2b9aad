"""The review page, step by step: what answers come to, which pairs a page shows, exact intervals."""

from __future__ import annotations

from math import comb


def judge(answers):
    """Answers (browser, answer, settles) in order -> (answer, conflict), or None."""
    browsers = {browser for browser, _, _ in answers}
    first = max([i for i, (_, _, settles) in enumerate(answers) if settles], default=0)
    last_of = {}
    for browser in browsers:
        for i in range(first, len(answers)):
            if answers[i][0] == browser:
                last_of[browser] = i
    said = [answers[i][1] for i in sorted(last_of.values())]
    if not said:
        return None
    clear = [answer for answer in said if answer != "skip"]
    return (clear[-1] if clear else "skip", "yes" in clear and "no" in clear)


def mix(ranked, sample, every):
    """Every ``every``-th pair comes from the sample while it lasts, the others from the rest."""
    rest = [key for key in ranked if key not in sample]
    sample, result = list(sample), []
    while rest or sample:
        turn = len(result) % every == every - 1
        result.append((sample or rest).pop(0) if turn else (rest or sample).pop(0))
    return result


def in_turns(cls, together):
    """Each class in turn gives up to ``together`` positions."""
    waiting = {c: [i for i, own in enumerate(cls) if own == c] for c in sorted(set(cls))}
    result = []
    while any(waiting.values()):
        for positions in waiting.values():
            result += [positions.pop(0) for _ in range(min(together, len(positions)))]
    return result


def listed(labels, chance, asked, best):
    """Keys of the pairs that are listed of many, and the best unknown classes of each image."""
    images, classes = len(labels), len(labels[0])
    keys, best_of = set(asked), []
    for image in range(images):
        unknown = [cls for cls in range(classes) if labels[image][cls] == 0]
        best_of.append(sorted(unknown, key=lambda cls: (-chance[image][cls], cls))[:best])
        for cls in range(classes):
            if labels[image][cls] != 0 or cls in best_of[image]:
                keys.add(cls * images + image)
    return sorted(keys), best_of


def passing(keys, pictures, names, levels, states, chosen, origins, top):
    """The keys that a filter lets through, one after the other."""
    result = []
    for key in keys:
        cls, image = divmod(key, pictures)
        level, state = int(levels[cls][image]), int(states[cls][image])
        value = None if state == 0 else "present" if (state - 1) % 2 else "absent"
        origin = "unknown" if state == 0 else origins[(state - 1) // 2]
        if chosen.cls is not None and cls != chosen.cls:
            continue
        if chosen.origin is not None and origin != chosen.origin:
            continue
        if chosen.value is not None and value != chosen.value:
            continue
        if chosen.low is not None and level < chosen.low * top:
            continue
        if chosen.high is not None and level > chosen.high * top:
            continue
        if chosen.search and chosen.search.lower() not in names[image].lower():
            continue
        result.append(key)
    return result


def tail_at_least(right, checked, p):
    """P(X >= right) of a binomial."""
    return sum(comb(checked, k) * p**k * (1 - p) ** (checked - k) for k in range(right, checked + 1))


def interval(right, checked, tail):
    """The ends of an exact interval by bisection of the binomial tails."""

    def bisect(is_low):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if is_low(middle) else (low, middle)
        return low

    low = bisect(lambda p: tail_at_least(right, checked, p) < tail) if right else 0.0
    high = bisect(lambda p: 1 - tail_at_least(right + 1, checked, p) > tail) if right < checked else 1.0
    return low, high
