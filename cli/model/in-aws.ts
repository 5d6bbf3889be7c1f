/** Has the function of a deployment replay captures, where its models serve. It is the one that looks at versions on trial. */
import { accountClients } from '../../infra/account/clients.ts';
import { recordOf, textOf } from '../../infra/doctor/template.ts';
import { asError, badRequest, ServingError } from '../../lib/contract/errors.ts';
import { assertModelName, type JobModel, modelPrefix } from '../../lib/contract/names.ts';
import { isVersion } from '../../lib/registry/download.ts';
import type { CaptureFilter } from '../../lib/s3/capture-reader.ts';
import type { ReplayAnswer, ReplayQuestion } from '../../release/trial/asked.ts';
import { findStack } from '../../sdk/stack.ts';
import { wrongUse } from '../command.ts';
import type { Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import type { Place, PlaceValues } from './place.ts';
import { SERVING } from './side.ts';

/** A function of Lambda ends by then. */
const LIMIT_MS = 900_000 + 10_000;
/** These choose another place, or what only a replay on this machine has. */
const ELSEWHERE = ['to', 'bucket', 'job', 'data-dir', 'config', 'fresh'] as const;

interface Values extends PlaceValues, Pick<ReplayQuestion, 'by'> {
  readonly stack?: string | undefined;
  readonly config?: string | undefined;
  readonly fresh?: boolean | undefined;
}

interface Deployed extends ReplayAnswer {
  readonly captured: JobModel;
  readonly place: Place;
}

/** @throws bad_config, not_found, and what the function answers */
export async function replayInAws(
  argument: string,
  filter: CaptureFilter,
  values: Values,
  output: Output,
): Promise<Deployed> {
  const { stack, by } = values;
  if (stack === undefined) throw wrongUse('model replay --in-aws: which deployment? Give --stack');
  const stray = ELSEWHERE.find((option) => values[option] !== undefined);
  if (stray !== undefined)
    throw wrongUse(`model replay: --in-aws asks what --stack names, without --${stray}`);
  const version = argument === SERVING ? undefined : argument;
  if (version !== undefined && !isVersion(version)) {
    const how = 'store it with `model push --no-activate`, or ask it on this machine, without --in-aws';
    throw wrongUse(`model replay --in-aws asks a stored version, not ${JSON.stringify(argument)}: ${how}`);
  }
  const { region, bucket, job } = await findStack(stack);
  const name = `${stack.replace(/^arn:.*:stack\/([^/]+)\/.*$/, '$1')}-trials`;
  const { model } = values;
  if (model !== undefined) assertModelName(model, job);
  const answer = await invoke(name, region, { model, version, filter, by }, output);
  if (answer.model !== model)
    throw badRequest(
      `${name} is of an earlier release, which replays the job's own model alone: deploy, or leave out --in-aws`,
    );
  const prefix = modelPrefix(job, model);
  const place = {
    location: { bucket, prefix },
    endpoint: undefined,
    region,
    text: `s3://${bucket}/${prefix}`,
  };
  return { ...answer, captured: { job, model }, place };
}

async function invoke(
  FunctionName: string,
  region: string,
  replay: ReplayQuestion,
  output: Output,
): Promise<ReplayAnswer> {
  const progress = showProgress(output.json);
  progress.update({ label: `${FunctionName} replays` });
  const { ask, close } = accountClients(region, process.cwd());
  try {
    const request = { FunctionName, Payload: JSON.stringify({ replay }) };
    const { FunctionError, Payload } = recordOf(await ask('lambda', 'Invoke', request, LIMIT_MS));
    const text = Payload instanceof Uint8Array ? Buffer.from(Payload).toString() : '';
    const answer: ReplayAnswer & { readonly errorMessage?: string } = JSON.parse(text);
    if (FunctionError === undefined) return answer;
    const { errorMessage = textOf(FunctionError) } = answer;
    const advice = /timed out|out of memory|signal/i.test(errorMessage)
      ? '; pass a later --since, or replay on this machine, without --in-aws'
      : '';
    throw badRequest(`${FunctionName}: ${errorMessage.split('\n')[0]}${advice}`);
  } catch (error) {
    const { name, message } = asError(error);
    if (name !== 'ResourceNotFoundException') throw error;
    const how = 'set `release: {trials: true}` in config.yaml and deploy, or leave out --in-aws';
    throw new ServingError('not_found', `${message}: the deployment has no function that replays; ${how}`);
  } finally {
    close();
    progress.end();
  }
}
