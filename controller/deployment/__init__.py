"""The ModelDeployment side of standalone mode: replicas, eligibility, retirement, drain."""
