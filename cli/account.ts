/** The part of `doctor --account`: what the account says, one line for each question. */
import type { AccountRequest } from '../infra/account/account.ts';
import type { AccountAnswer } from '../infra/account/answer.ts';
import type { FactsRequest } from '../infra/doctor/facts.ts';
import type { Facts } from '../infra/doctor/rule.ts';
import { variables } from '../lib/contract/variables.ts';

const DEFAULT_REGION = 'us-east-1';
const SYMBOLS: Readonly<Record<AccountAnswer['kind'], string>> = {
  ok: '✔ ok',
  note: 'ℹ note',
  warning: '▲ warning',
  error: '✖ error',
};

/** As osls chooses it. */
export function deploymentRegion(named: string | undefined): string {
  return named ?? (variables['AWS_REGION'] || variables['AWS_DEFAULT_REGION'] || DEFAULT_REGION);
}

/** Loads the AWS SDK. @throws bad_config without osls */
export async function accountAnswers(
  facts: Facts,
  { root, project, config }: FactsRequest,
  region: string,
): Promise<AccountAnswer[]> {
  const [{ askAccount }, { accountClients }, { readService }, { queueConcurrency }] = await Promise.all([
    import('../infra/account/account.ts'),
    import('../infra/account/clients.ts'),
    import('../infra/template/config.ts'),
    import('../infra/doctor/queue-rules.ts'),
  ]);
  const { settings, stage, template, job, model } = facts;
  const { jobName, queueName, deadLetterQueueName, provisioned, files, zones, sharedRedis, network } =
    settings;
  const request: AccountRequest = {
    region,
    template,
    sharedRedis,
    queues: [queueName, deadLetterQueueName],
    planned: {
      stackName: `${readService(root, config)}-${stage}`,
      jobName,
      missingModel: model.state === 'missing' ? model.directory : undefined,
      network,
    },
    zones: zones.filter((zone) => typeof zone === 'string'),
    ownNetwork: files.network === 'own',
    memoryMB: job.function.memoryMB,
    targets: job.notify,
    secrets: Object.values(job.notify).flatMap(({ secret }) => secret ?? []),
    environments: [...queueConcurrency(facts).values()].reduce((sum, count) => sum + count, provisioned),
  };
  const clients = accountClients(region, project);
  try {
    return await askAccount(clients.ask, request);
  } finally {
    clients.close();
  }
}

export function accountText(answers: readonly AccountAnswer[]): string {
  const lines = answers.map(
    ({ question, kind, found, fix }) =>
      `  ${SYMBOLS[kind].padEnd(9)} ${question}: ${found}${fix === undefined ? '' : `. To do: ${fix}`}`,
  );
  return ['Account', ...lines].join('\n');
}
