"""The HTML report: embeddings side by side with their scores, in one file."""

from manifoldry.viz._report.build import build_report
from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel, ReportScale

__all__ = ["Report", "ReportChart", "ReportPanel", "ReportScale", "build_report"]
