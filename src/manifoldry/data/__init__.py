"""Data: datasets, tables in and out, chunked data, AnnData and model files."""
