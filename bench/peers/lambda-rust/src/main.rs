//! The floor: a function without an interpreter, with the very libonnxruntime that onnxruntime-node has.

use std::env::var;
use std::sync::Mutex;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use ort::environment::Environment;
use ort::session::{Session, builder::GraphOptimizationLevel};
use ort::value::Tensor;
use serde_json::{Value, json};

async fn open_model() -> Result<Session, Error> {
    let environment = ort::init_from(var("BENCH_ONNXRUNTIME")?)?.build()?;
    let shared = aws_config::load_from_env().await;
    let config = aws_sdk_s3::config::Builder::from(&shared).force_path_style(true).build();
    let stored = aws_sdk_s3::Client::from_conf(config).get_object();
    let stored = stored.bucket(var("BENCH_BUCKET")?).key(var("BENCH_KEY")?).send().await?;
    let model = stored.body.collect().await?.into_bytes();
    Ok(open_session(&environment, &model)?)
}

fn open_session(environment: &Environment, model: &[u8]) -> ort::Result<Session> {
    Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .commit_from_memory(model)
}

fn predict(session: &mut Session, input: &str, event: &Value) -> Result<Value, Error> {
    let body: Value = serde_json::from_str(event["body"].as_str().ok_or("no body")?)?;
    let row = body["instances"][0][input].as_array().ok_or("no instance")?;
    let row: Vec<f32> = row.iter().map(|number| number.as_f64().unwrap_or(f64::NAN) as f32).collect();
    let outputs = session.run(ort::inputs![input => Tensor::from_array(([1, row.len()], row))?])?;
    let (_, scores) = outputs[0].try_extract_tensor::<f32>()?;
    let body = json!({ "predictions": [scores] }).to_string();
    Ok(json!({ "statusCode": 200, "headers": { "content-type": "application/json" }, "body": body }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let input = var("BENCH_INPUT")?;
    let session = Mutex::new(open_model().await?);
    let handler = async |event: LambdaEvent<Value>| predict(&mut session.lock().unwrap(), &input, &event.payload);
    run(service_fn(handler)).await
}
