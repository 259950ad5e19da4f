"""What the counts are made on: the ops that matter, their control flow, tokens and conditions."""
