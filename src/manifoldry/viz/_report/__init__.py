"""A page to look at: embeddings side by side with what is known of their quality, in one file of HTML."""

from manifoldry.viz._report.build import build_report
from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel, ReportScale

__all__ = ["Report", "ReportChart", "ReportPanel", "ReportScale", "build_report"]
