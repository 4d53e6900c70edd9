"""The vocabulary that every stage speaks: schemas, frames, findings, notes, errors."""
