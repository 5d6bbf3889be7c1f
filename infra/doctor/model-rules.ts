/**
 * Rules about the model directory of the settings. A deployment without a model succeeds, and only the first request
 * shows that no model serves.
 */
import { KINDS } from '../../onnx-import/index.ts';
import { isProduction, megabytes, settingsRule } from './rule.ts';

const missing = settingsRule({
  id: 'model-missing',
  topic: 'Model',
  looksAt: 'the directory that modelPath names',
  why: 'A first deployment without a model is refused. A later one leaves the model that is in the bucket; if there is none, every request and /ready are answered with 503.',
  fix: 'modelPath in config.yaml (relative to that file), or --param sample=on',
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

const remote = settingsRule({
  id: 'model-remote',
  topic: 'Model',
  looksAt: 'a model that modelPath names by its address in S3 or on the hub',
  why: 'Doctor asks no service, so nothing is known of the model before the deployment copies it.',
  fix: 'cluster-serving model check with its address, which copies it and writes nothing',
  check: ({ model }) => {
    if (model.state !== 'remote') return [];
    return [
      { severity: 'info', where: 'modelPath', found: model.directory, expected: 'a model that was checked' },
    ];
  },
});

const unusable = settingsRule({
  id: 'model-unusable',
  topic: 'Model',
  looksAt: 'the kind of model in the directory, by file names and first bytes',
  why: 'The deployment stops before it creates anything.',
  fix: 'modelPath in config.yaml, or a separate directory for the model',
  check: ({ model }) => {
    if (model.state !== 'unusable') return [];
    return [{ severity: 'error', where: 'modelPath', found: model.problem, expected: 'one model' }];
  },
});

const foreign = settingsRule({
  id: 'model-foreign',
  topic: 'Model',
  looksAt: 'models in a format other than ONNX',
  why: 'A deployment imports models of other formats whenever they changed, without a review of the result.',
  fix: 'review the result of cluster-serving model import <dir>, then set modelPath: <dir>-onnx in config.yaml',
  check: ({ model }) => {
    if (model.state !== 'found' || model.kind === 'onnx') return [];
    const found = `a ${KINDS[model.kind].title} model in ${model.directory}`;
    return [{ where: 'modelPath', found, severity: 'info', expected: 'ONNX with its import report' }];
  },
});

const importReport = settingsRule({
  id: 'model-import-report',
  topic: 'Model',
  looksAt: 'import-report.json beside the model: readable, and of this model',
  why: 'The memory in it may have been measured for another file, and memory-model relies on it.',
  fix: 'cluster-serving model import again, or delete import-report.json',
  check: ({ model }) => {
    if (model.state !== 'found') return [];
    const where = 'import-report.json';
    if (model.importReportProblem !== undefined) {
      return [
        {
          severity: 'warning',
          where,
          found: model.importReportProblem,
          expected: 'what model import writes',
        },
      ];
    }
    if (!model.importReport) return [];
    const { modelFile, modelFileBytes } = model.importReport;
    const bytes = model.fileBytes[modelFile];
    if (bytes === modelFileBytes) return [];
    const found =
      bytes === undefined ? `it describes ${modelFile}, which is missing` : `${modelFile} has ${bytes} bytes`;
    return [{ severity: 'warning', where, found, expected: `${modelFile} with ${modelFileBytes} bytes` }];
  },
});

const MOST_MODEL_BYTES = 1024 * 1024 * 1024;

const large = settingsRule({
  id: 'model-large',
  topic: 'Model',
  looksAt: 'size of the model',
  why: 'The download reaches about 55 MB/s in each of eight streams. INIT has 10 s for download, verification and warm-up; what of the download is not there by then is continued by the first request.',
  fix: 'a smaller model (fp16, int8), more function.memoryMB for network bandwidth, --param provisioned to avoid cold starts',
  check: ({ model }) => {
    if (!('bytes' in model) || model.bytes <= MOST_MODEL_BYTES) return [];
    const expected = `up to ${megabytes(MOST_MODEL_BYTES)}`;
    return [{ severity: 'warning', where: 'modelPath', found: megabytes(model.bytes), expected }];
  },
});

export const MODEL_RULES = [missing, remote, unusable, foreign, importReport, large];
