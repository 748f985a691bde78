"""The coordinator over HTTP: an API with its OpenAPI description, and pages for people.

Only a coordinator process imports this (FastAPI and uvicorn are needed nowhere else).
"""
