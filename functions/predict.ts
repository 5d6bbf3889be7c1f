/**
 * POST /predict. In: {"instances":[{name: value}, ...]}. Out: {"predictions":["{value=...}", ...]}, same order.
 * Trap: the contract's answer has no place for one instance's error, so a bad instance fails its request.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { decodeInstances } from '../lib/codecs/instances.ts';
import { ServingError } from '../lib/errors.ts';
import { readRequest } from '../lib/http/request.ts';
import { type HttpResponse, json, respond } from '../lib/http/response.ts';
import { logError } from '../lib/log.ts';
import type { Reporter } from '../lib/metrics/reporter.ts';
import type { ModelHost } from '../lib/model/host.ts';
import { liveModel } from '../lib/model/live.ts';
import { type Filter, filterText, outputsText, parseFilter } from '../lib/pipeline/filter.ts';
import { liveResults } from '../lib/results/live.ts';
import { liveReporter } from '../lib/results/reporter.ts';
import { live } from './live.ts';

export interface PredictDeps {
  readonly model: Pick<ModelHost, 'use'>;
  readonly filter: Filter | undefined;
  readonly reporter: Reporter;
}

export const predict = (deps: PredictDeps) => (event: APIGatewayProxyEventV2) =>
  respond(async (): Promise<HttpResponse> => {
    const stop = deps.reporter.start('zoo.serving.request.overall');
    const instances = decodeInstances(readRequest(event).body());
    const run = deps.reporter.start('zoo.serving.request.predict');
    const outcomes = await deps.model.use((runner) => runner.run(instances));
    run();
    const predictions = outcomes.map((outcome, index) => {
      if (outcome.ok)
        return `{value=${deps.filter ? filterText(outcome.outputs, deps.filter) : outputsText(outcome.outputs)}}`;
      const { code, message } = outcome.error;
      const where = instances.length > 1 ? `instances[${index}]: ` : '';
      throw new ServingError(code, where + message, { cause: outcome.error });
    });
    stop();
    await deps.reporter.flushWhenDue();
    return json(200, { predictions });
  }, logError);

export const handler = await live(predict, async (environment) => ({
  model: await liveModel(environment),
  filter: parseFilter(environment.job.postProcessing),
  reporter: liveReporter(liveResults(environment)),
}));
