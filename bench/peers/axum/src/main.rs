//! axum and onnxruntime on one core, with batches as ours has them: requests that wait share a run. The library is that of
//! onnxruntime-node itself.

use std::collections::HashMap;
use std::env::var;
use std::error::Error;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use ort::environment::Environment;
use ort::session::{Session, builder::GraphOptimizationLevel};
use ort::value::Tensor;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

const BATCH: usize = 32;
const BODY_BYTES: usize = 6 * 1024 * 1024;

#[derive(Deserialize)]
struct Request {
    instances: Vec<HashMap<String, Vec<f32>>>,
}

#[derive(Serialize)]
struct Answer {
    predictions: Vec<Vec<f32>>,
}

struct Waiting {
    row: Vec<f32>,
    done: oneshot::Sender<Vec<f32>>,
}

#[derive(Clone)]
struct Served {
    input: String,
    queue: mpsc::Sender<Waiting>,
}

async fn predict(State(served): State<Served>, Json(request): Json<Request>) -> Result<Json<Answer>, StatusCode> {
    let mut answers = Vec::with_capacity(request.instances.len());
    for mut instance in request.instances {
        let row = instance.remove(&served.input).ok_or(StatusCode::BAD_REQUEST)?;
        let (done, answer) = oneshot::channel();
        served.queue.send(Waiting { row, done }).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        answers.push(answer);
    }
    let mut predictions = Vec::with_capacity(answers.len());
    for answer in answers {
        predictions.push(answer.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?);
    }
    Ok(Json(Answer { predictions }))
}

fn run(session: &mut Session, input: &str, batch: &[Waiting]) -> ort::Result<Vec<Vec<f32>>> {
    let data = batch.iter().flat_map(|waiting| waiting.row.iter().copied()).collect::<Vec<f32>>();
    let shape = [batch.len(), data.len() / batch.len()];
    let outputs = session.run(ort::inputs![input => Tensor::from_array((shape, data))?])?;
    let (_, scores) = outputs[0].try_extract_tensor::<f32>()?;
    Ok(scores.chunks(scores.len() / batch.len()).map(<[f32]>::to_vec).collect())
}

async fn serve_batches(mut session: Session, input: String, mut queue: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(BATCH);
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        // Each waiter of a batch that fails finds its channel closed.
        let rows = run(&mut session, &input, &batch).unwrap_or_default();
        for (waiting, row) in batch.drain(..).zip(rows) {
            let _ = waiting.done.send(row);
        }
        // Requests that have come meanwhile are read before the next run.
        tokio::task::yield_now().await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let environment: Environment = ort::init_from(var("BENCH_ONNXRUNTIME")?)?.build()?;
    let session = Session::builder(&environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .commit_from_file(var("BENCH_MODEL")?)?;
    let input = var("BENCH_INPUT")?;
    let (queue, waiting) = mpsc::channel(1_024);
    tokio::spawn(serve_batches(session, input.clone(), waiting));
    let app = Router::new()
        .route("/predict", post(predict))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(Served { input, queue });
    let port = var("BENCH_PORT")?;
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, app).await?;
    Ok(())
}
