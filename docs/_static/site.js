// A page opened from a folder cannot read other pages, so its search shows titles without excerpts.
if (window.location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
