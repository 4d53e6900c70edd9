"""The data model that all stages share: schemas, frames, findings, notes, errors."""
