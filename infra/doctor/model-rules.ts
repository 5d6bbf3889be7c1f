/**
 * In: what lies in the model directory of the settings. Out: whether a deployment would find a model, and which.
 * Trap: a deployment without a model succeeds; that nothing serves is seen by the first caller.
 */
import { KINDS } from '../../convert/kinds.ts';
import { type Finding, isProduction, megabytes, settingsRule } from './rule.ts';

const missing = settingsRule({
  id: 'model-missing',
  topic: 'Model',
  looksAt: 'the directory that modelPath names',
  why: 'The stack is deployed all the same, and every request and /ready answer 503 until a model is published.',
  fix: 'modelPath in config.yaml (relative to that file); later: npx serverless publish',
  check: (facts) => {
    if (facts.model.state !== 'missing') return [];
    return [
      {
        severity: isProduction(facts) ? 'error' : 'warning',
        where: 'modelPath',
        found: `no directory ${facts.model.directory}`,
        expected: 'a directory with one model',
      },
    ];
  },
});

const unusable = settingsRule({
  id: 'model-unusable',
  topic: 'Model',
  looksAt: 'what kind of model the directory holds, by its file names and their first bytes',
  why: 'The deployment creates the stack, then fails at the model.',
  fix: 'modelPath in config.yaml, or a directory of its own for the model that is meant',
  check: ({ model }) => {
    if (model.state !== 'unusable') return [];
    return [{ severity: 'error', where: 'modelPath', found: model.problem, expected: 'one model' }];
  },
});

const foreign = settingsRule({
  id: 'model-foreign',
  topic: 'Model',
  looksAt: 'models that are no ONNX',
  why: 'TensorFlow and Caffe models are imported by every deployment that finds them changed, unseen; other kinds are refused.',
  fix: 'cluster-serving model import <dir> shows what comes of it; then modelPath: <dir>-onnx in config.yaml',
  check: ({ model }) => {
    if (model.state !== 'found' || model.kind === 'onnx') return [];
    const { title, recipe } = KINDS[model.kind];
    const base = { where: 'modelPath', found: `a ${title} model in ${model.directory}` };
    const finding: Finding = recipe
      ? { ...base, severity: 'error', expected: 'ONNX, TensorFlow or Caffe', fix: recipe }
      : { ...base, severity: 'info', expected: 'ONNX with its passport' };
    return [finding];
  },
});

const passport = settingsRule({
  id: 'model-passport',
  topic: 'Model',
  looksAt: 'passport.json beside the model: readable, and of this model',
  why: 'The memory in it was measured for another file; the memory rule would judge by it.',
  fix: 'cluster-serving model import again, or take passport.json away',
  check: ({ model }) => {
    if (model.state !== 'found') return [];
    const where = 'passport.json';
    if (model.passportProblem !== undefined) {
      return [
        { severity: 'warning', where, found: model.passportProblem, expected: 'what model import writes' },
      ];
    }
    if (!model.passport) return [];
    const { modelFile, modelFileBytes } = model.passport;
    const bytes = model.fileBytes[modelFile];
    if (bytes === modelFileBytes) return [];
    const found =
      bytes === undefined ? `it is of ${modelFile}, which is not there` : `${modelFile} has ${bytes} bytes`;
    return [{ severity: 'warning', where, found, expected: `${modelFile} with ${modelFileBytes} bytes` }];
  },
});

const MOST_MODEL_BYTES = 1024 * 1024 * 1024;

const large = settingsRule({
  id: 'model-large',
  topic: 'Model',
  looksAt: 'size of the model',
  why: 'S3 gives about 55 MB/s a stream and eight streams at once; INIT has 10 s for download, check and warm-up, and is run again under the timeout of the request when it takes longer.',
  fix: 'a smaller model (fp16, int8), more function.memoryMB for the network, --param provisioned against the cold start',
  check: ({ model }) => {
    if (model.state !== 'found' || model.bytes <= MOST_MODEL_BYTES) return [];
    const expected = `up to ${megabytes(MOST_MODEL_BYTES)}`;
    return [{ severity: 'warning', where: 'modelPath', found: megabytes(model.bytes), expected }];
  },
});

export const MODEL_RULES = [missing, unusable, foreign, passport, large];
