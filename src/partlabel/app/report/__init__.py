"""The report: what runs were trained on and how good they are, as one HTML file, with its numbers as JSON beside it."""

from partlabel.app.report.writing import collect, write_report

__all__ = ["collect", "write_report"]
