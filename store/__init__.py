"""What is kept: schemas, changes and merge, record, memory."""
