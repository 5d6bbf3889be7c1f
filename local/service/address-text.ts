/** The lines that a start prints about the addresses of its jobs. */
import { type Addresses, exportLines } from './data-folder.ts';

export function addressText(addresses: Addresses): string {
  const redis =
    addresses.redis === 'redis-server'
      ? `redis-server ${addresses.redisVersion}`
      : 'embedded, for local use only; install redis-server to use the real one';
  const several = addresses.jobs.length > 1;
  return [
    ...addresses.jobs.flatMap(({ job, model, modelNotes, http, queueUrl }) => [
      `job ${job}, model version ${model}`,
      ...modelNotes.map((note) => `  model   ${note}`),
      ...(several ? [`  http    ${http}`] : []),
      `  queue   ${queueUrl}`,
    ]),
    ...(addresses.grpc === undefined ? [] : [`  grpc    ${addresses.grpc}`]),
    `  redis   ${addresses.redisUrl} (${redis})`,
    `  bucket  s3://${addresses.bucket}`,
    ...exportLines(addresses),
  ].join('\n');
}
