/** Lists the layers, operations and objectives that are converted, from the converters' own tables. */
type Framework = 'bigdl' | 'caffe' | 'openvino' | 'tensorflow' | 'pytorch' | 'xgboost' | 'lightgbm';
export type SupportedOps = Readonly<Record<Framework, readonly string[]>>;

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

/** How each is introduced, in the order of the text. */
const TITLES: Readonly<Record<Framework, readonly [title: string, what: string]>> = {
  bigdl: ['BigDL', "modules of nn, and the layers in Keras's style that are made of them"],
  caffe: ['Caffe', 'layers'],
  openvino: ['OpenVINO', 'operations and layers'],
  tensorflow: ['TensorFlow', 'operations'],
  pytorch: ['PyTorch', 'operators'],
  xgboost: ['XGBoost', 'objectives'],
  lightgbm: ['LightGBM', 'objectives'],
};

export function supportedOpsText(supported: SupportedOps): string {
  const parts = Object.entries(TITLES).map(([framework, [title, what]]) => {
    const names = supported[framework as Framework];
    return `${title}, ${names.length} ${what}:\n\n${wrapped(names)}`;
  });
  return parts.join('\n\n');
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
