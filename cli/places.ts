/** In: the record of a running service. Out: where everything is, as a person reads it. Trap: none. */
import type { StackRecord } from '../local/data-folder.ts';

export function placesText(record: StackRecord): string {
  const redis = record.redis === 'redis-server' ? `redis-server ${record.redisVersion}` : 'embedded';
  const places: (readonly [string, string])[] = [
    ['redis', `${record.redisUrl} (${redis})`],
    ['bucket', `s3://${record.bucket}`],
  ];
  if (record.log !== undefined) places.push(['log', record.log]);
  const environment = Object.entries(record.environment).map(([name, value]) => `${name}=${value}`);
  return [
    `process ${record.pid}`,
    ...record.jobs.flatMap(({ job, model, modelNotes = [], http, queueUrl }) => [
      `job ${job}, model version ${model}`,
      ...modelNotes.map((note) => `  model   ${note}`),
      `  http    ${http}`,
      `  queue   ${queueUrl}`,
    ]),
    ...places.map(([name, place]) => `  ${name.padEnd(7)} ${place}`),
    `  for the AWS SDK and the aws command line:`,
    ...environment.map((line) => `    export ${line}`),
  ].join('\n');
}
