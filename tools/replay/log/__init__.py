"""Session logs as replay reads them: which files, which records, which of them are believed."""
