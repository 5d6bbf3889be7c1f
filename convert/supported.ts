/** Lists the layers, operations and objectives that are converted, from the converters' own tables. */
interface SupportedOps {
  readonly bigdl: readonly string[];
  readonly caffe: readonly string[];
  readonly openvino: readonly string[];
  readonly tensorflow: readonly string[];
  readonly pytorch: readonly string[];
  readonly xgboost: readonly string[];
  readonly lightgbm: readonly string[];
}

export async function supportedOps(): Promise<SupportedOps> {
  const [bigdl, caffe, data, openvino, tensorflow, pytorch, xgboost, lightgbm] = await Promise.all([
    import('./bigdl/layers/table.ts'),
    import('./caffe/layers/table.ts'),
    import('./caffe/data-layers.ts'),
    import('./openvino/ops/table.ts'),
    import('./tensorflow/ops/table.ts'),
    import('./pytorch/aten/table.ts'),
    import('./trees/xgboost.ts'),
    import('./trees/lightgbm.ts'),
  ]);
  return {
    bigdl: [...bigdl.MODULE_TYPES].sort(),
    caffe: [...caffe.LAYER_TYPES, ...data.DATA_LAYER_TYPES].sort(),
    openvino: [...openvino.OP_TYPES].sort(),
    tensorflow: Object.keys(tensorflow.OPS).sort(),
    pytorch: [...pytorch.OPERATOR_NAMES].sort(),
    xgboost: Object.keys(xgboost.OBJECTIVES).sort(),
    lightgbm: Object.keys(lightgbm.OBJECTIVES).sort(),
  };
}

export function supportedOpsText({
  bigdl,
  caffe,
  openvino,
  tensorflow,
  pytorch,
  xgboost,
  lightgbm,
}: SupportedOps): string {
  return [
    `BigDL, ${bigdl.length} modules of nn, and the layers in Keras's style that are made of them:`,
    '',
    wrapped(bigdl),
    '',
    `Caffe, ${caffe.length} layers:`,
    '',
    wrapped(caffe),
    '',
    `OpenVINO, ${openvino.length} operations and layers:`,
    '',
    wrapped(openvino),
    '',
    `TensorFlow, ${tensorflow.length} operations:`,
    '',
    wrapped(tensorflow),
    '',
    `PyTorch, ${pytorch.length} operators:`,
    '',
    wrapped(pytorch),
    '',
    `XGBoost, ${xgboost.length} objectives:`,
    '',
    wrapped(xgboost),
    '',
    `LightGBM, ${lightgbm.length} objectives:`,
    '',
    wrapped(lightgbm),
  ].join('\n');
}

const COLUMNS = 120;

function wrapped(names: readonly string[]): string {
  const lines: string[] = [];
  for (const name of names) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + name.length + 3 <= COLUMNS)
      lines[lines.length - 1] = `${line}, ${name}`;
    else {
      if (line !== undefined) lines[lines.length - 1] = `${line},`;
      lines.push(name);
    }
  }
  return lines.join('\n');
}
