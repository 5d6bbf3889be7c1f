/** Who pushes versions of the model, tries them, and rolls back. */

export { readCurrent } from '../../../lib/registry/pointer.ts';
export { publishModel } from '../../../lib/registry/publish.ts';
export { endCanary } from '../../../lib/registry/trial.ts';
export { rollBack } from '../../../lib/registry/versions.ts';
export { openS3 } from '../../../lib/s3/client.ts';
