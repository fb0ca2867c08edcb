"""Admission: AdmissionReview, defaulting, validation, certificates."""
