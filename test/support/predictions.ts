/** The predictions function with the dependencies that a test names. Any other fails when it is used; settings are the defaults. */
import assert from 'node:assert/strict';
import { type PredictionsDeps, predictions } from '../../functions/predictions.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { quietObservers } from './observers.ts';

const unused = () => assert.fail('not asked for');

const DEPS = {
  settings: DEFAULT_JOB,
  queue: unused,
  payloads: unused,
  results: unused,
  states: unused,
  locate: unused,
  placeUpload: unused,
  batchService: unused,
  observers: quietObservers(),
};

export function predictionsWith(deps: Partial<PredictionsDeps>): ReturnType<typeof predictions> {
  return predictions({ ...DEPS, ...deps });
}
