"""Traffic shapes, scenarios, baseline autoscalers, oracle, replay."""
