"""What an operation costs in cycles (`cost_model`): for schedules by latency and the machine."""
