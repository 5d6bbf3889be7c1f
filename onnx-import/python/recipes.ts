/**
 * What makes ONNX, or a kind that is read here, of files that only Python reads: the owner's own exporter. One table of data: the
 * versions that were tried, how much disk they take, whether the file is code, and the lines that are run.
 */
import * as scripts from './scripts.ts';

export interface Recipe {
  /** What it is, for people. */
  readonly title: string;
  readonly files: RegExp;
  /** As pip takes them; `{…}` is the version that the file names, or what follows the bar. */
  readonly packages: readonly string[];
  /** Of the environment, with room for pip's downloads. */
  readonly diskGB: number;
  /** Loading the file runs what it says. */
  readonly isCode: boolean;
  /** Takes the file and the folder for what it makes; `reference/` in it gets what the framework answers. */
  readonly script: string;
}

/** The first that matches counts. */
export const RECIPES: readonly Recipe[] = [
  {
    title: 'CatBoost',
    files: /\.cbm$/i,
    packages: ['catboost==1.2.10'],
    diskGB: 2,
    isCode: false,
    script: scripts.CATBOOST,
  },
  {
    title: 'Keras',
    files: /(?<!weights)\.keras$/i,
    packages: ['tensorflow-cpu==2.21.0', 'keras==3.15.1'],
    diskGB: 6,
    isCode: false,
    script: scripts.KERAS,
  },
  {
    title: 'Keras in HDF5, whose Lambda layers are code',
    files: /(?<!weights)\.(h5|hdf5)$/i,
    packages: ['tensorflow-cpu==2.21.0', 'keras==3.15.1'],
    diskGB: 6,
    isCode: true,
    script: scripts.KERAS,
  },
  {
    title: 'scikit-learn in a pickle, which is code',
    files: /\.(pkl|pickle|joblib|sav)$/i,
    packages: ['scikit-learn=={sklearn|1.9.1}', 'skl2onnx==1.20.0', 'onnx==1.23.2'],
    diskGB: 2,
    isCode: true,
    script: scripts.SCIKIT_LEARN,
  },
  {
    title: 'scikit-learn by skops',
    files: /\.skops$/i,
    packages: ['scikit-learn==1.9.1', 'skops==0.16.0', 'skl2onnx==1.20.0', 'onnx==1.23.2'],
    diskGB: 2,
    isCode: false,
    script: scripts.SCIKIT_LEARN,
  },
  {
    title: 'PaddlePaddle',
    // Its weights, which lie beside the graph: of release 2 in *.pdmodel, of release 3 in *.json.
    files: /\.pdiparams$/i,
    packages: ['paddlepaddle==3.3.1', 'paddle2onnx==2.1.0', 'packaging==26.4', 'onnxruntime==1.32.0'],
    diskGB: 4,
    isCode: false,
    script: scripts.PADDLE,
  },
  {
    title: 'a program of torch.export, whose constants may be code',
    files: /\.pt2$/i,
    packages: ['torch==2.15.0', 'onnx==1.23.2', 'onnxscript==0.7.2', 'numpy'],
    diskGB: 16,
    isCode: true,
    script: scripts.TORCH,
  },
];
