import { describe, test } from 'node:test';
import { claimChecks, deadLetters, modelDownloads } from './s3-faults.ts';

// They wait for time limits most of the time.
describe('F8: faults of S3', { concurrency: 3 }, () => {
  test('a payload that S3 does not return (completely) comes again, or is reported as gone, and the nine others have their results', (t) =>
    claimChecks(t));

  test('a model S3 does not give (whole) never serves, and the next opening has it', (t) =>
    modelDownloads(t));

  test('a dead letter S3 does not take comes again, and is archived and told once in the end', (t) =>
    deadLetters(t));
});
