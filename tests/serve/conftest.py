import pytest
from starlette.testclient import TestClient

from alignatt_agent.serve.app import create_app
from tests.serve.live import Running, make_service


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Speakers whose connection was lost are not waited for."""
    monkeypatch.setattr("alignatt_agent.serve.wires.own.RETURN_S", 0.0)


@pytest.fixture
def service(tmp_path):
    return make_service(tmp_path)


@pytest.fixture
def client(service):
    with TestClient(create_app(service)) as client:
        yield client


@pytest.fixture
def server(service):
    with Running(service) as server:
        yield server
