/**
 * A process in which the models of a test file run one after another. Starting one and loading onnxruntime takes most of an
 * import, so only tests of memory, limits and cancelling let each import have its own.
 */
import { after } from 'node:test';
import { ModelProcess } from '../../../convert/check/model-process.ts';

/** An option of imports, also of those of a service, which itself always measures: that takes a process of its own. */
export const UNMEASURED = { measure: false } as const;

export const models = new ModelProcess();

after(() => models.close());
