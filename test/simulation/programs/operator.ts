/** Who pushes versions of the model and rolls back. */
export { publishModel } from '../../../lib/registry/publish.ts';
export { rollBack } from '../../../lib/registry/versions.ts';
export { openS3 } from '../../../lib/s3/client.ts';
