(() => {
  "use strict";
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    button.textContent = "Theme: " + root.dataset.theme;
  });

  // the layer lies exactly over the image, whatever the size of the card
  const fit = (photo) => {
    const [image, layer] = photo.querySelectorAll("img");
    if (!layer) return;
    const scale = Math.min(photo.clientWidth / image.width0, photo.clientHeight / image.height0);
    const width = image.width0 * scale, height = image.height0 * scale;
    for (const one of [image, layer]) Object.assign(one.style, { width: width + "px", height: height + "px" });
    Object.assign(layer.style, { left: (photo.clientWidth - width) / 2 + "px", top: (photo.clientHeight - height) / 2 + "px" });
  };
  const photos = [...document.querySelectorAll(".photo")];
  for (const photo of photos) {
    const image = photo.querySelector("img");
    if (image) Object.assign(image, { width0: Number(image.getAttribute("width")), height0: Number(image.getAttribute("height")) });
  }
  const observer = new ResizeObserver((entries) => entries.forEach((entry) => fit(entry.target)));
  photos.forEach((photo) => observer.observe(photo));

  const list = document.getElementById("cards");
  const cards = [...list.children].map((element, place) => ({ element, place, values: JSON.parse(element.dataset.values) }));
  const chosen = document.getElementById("class"), order = document.getElementById("order"), shown = document.getElementById("shown");
  const strength = (card) => (chosen.value && chosen.value !== "none" ? card.values[chosen.value] : Math.max(0, ...Object.values(card.values)));
  const arrange = () => {
    const has = (card) => chosen.value === "" || (chosen.value === "none" ? !Object.keys(card.values).length : chosen.value in card.values);
    const sign = { given: 0, sure: -1, doubt: 1 }[order.value];
    const sorted = [...cards].sort((a, b) => sign * (strength(a) - strength(b)) || a.place - b.place);
    for (const card of sorted) card.element.hidden = !has(card);
    list.append(...sorted.map((card) => card.element));
    const count = cards.filter(has).length;
    shown.textContent = count === cards.length ? "" : `${count.toLocaleString("en")} of ${cards.length.toLocaleString("en")} images`;
  };
  chosen.addEventListener("change", arrange);
  order.addEventListener("change", arrange);
  const where = document.getElementById("where");
  if (where) where.addEventListener("change", () => list.classList.toggle("no-where", !where.checked));
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("controls").hidden = false;
})();
