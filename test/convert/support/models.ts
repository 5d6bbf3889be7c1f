/**
 * A process in which the models of a test file run one after another. Starting one and loading onnxruntime takes most of an
 * import, so only tests of memory, limits and cancelling let each import have its own.
 */
import { after } from 'node:test';
import { ModelProcess } from '../../../convert/check/model-process.ts';

export const models = new ModelProcess();

after(() => models.close());
