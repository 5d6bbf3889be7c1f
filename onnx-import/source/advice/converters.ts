/** Formats whose converter is called with the names of the files. */

export function pmml(file: string): string {
  return `${file} is PMML, from which nothing leads to ONNX; export the model it was made from, as skl2onnx.to_onnx(model, X[:1]) for scikit-learn`;
}

/** PaddlePaddle 2 keeps its graph in *.pdmodel, 3 in a *.json of that name. */
export function paddle(file: string, names: readonly string[]): string {
  const stem = file.replace(/\.\w+$/, '');
  const graph = [`${stem}.pdmodel`, `${stem}.json`].find((name) => names.includes(name));
  if (graph === undefined)
    return `${file} holds weights of PaddlePaddle; its graph, ${stem}.json or ${stem}.pdmodel, is missing`;
  return `${file} is of PaddlePaddle; after pip install paddlepaddle paddle2onnx packaging: \`${paddle2onnx(graph)}\``;
}

export function mxnet(file: string, names: readonly string[]): string {
  const graph = names.find((name) => name.endsWith('-symbol.json')) ?? 'model-symbol.json';
  return `${file} holds weights of MXNet; ${mxnetCall(graph, file)}`;
}

export function mxnetCall(graph: string, weights: string): string {
  return `in Python, with mxnet==1.9.1, numpy<1.24 and onnx<1.15: mxnet.onnx.export_model("${graph}", "${weights}", [shape]) makes an ONNX model`;
}

export function paddle2onnx(graph: string): string {
  const params = graph.replace(/\.\w+$/, '.pdiparams');
  return `paddle2onnx --model_dir . --model_filename ${graph} --params_filename ${params} --save_file model.onnx`;
}
