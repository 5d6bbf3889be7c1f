"""FastAPI in a function, behind Mangum. As in ../fastapi/server.py, neither body is checked by a pydantic model."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from mangum import Mangum
from plain import predict

app = FastAPI()


@app.post("/predict")
async def route(request: Request) -> JSONResponse:
    return JSONResponse({"predictions": predict((await request.json())["instances"])})


handler = Mangum(app, lifespan="off")
