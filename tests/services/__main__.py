"""Fetch and prepare all that the servers for tests are made of, so that no test waits for it."""

from tests.services import apicurio, kafka, s3a, versitygw

kafka.prepare()
apicurio.prepare()
versitygw.prepare()
s3a.prepare()
