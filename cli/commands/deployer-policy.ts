/**
 * `cluster-serving deployer-policy`: the rights to deploy what was packaged, as a policy of IAM. It calls nothing and
 * changes nothing in the account.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { partitionOf } from '../../lib/contract/aws-address.ts';
import { serviceName } from '../../lib/queue/names.ts';
import { defineCommand, unexpected, wrongUse } from '../command.ts';
import { DEPLOYMENT_OPTIONS, deploymentRequest } from '../deployment-options.ts';
import { EXIT } from '../output.ts';

const KINDS = ['deployer', 'role', 'ci'] as const;
const ACCOUNT = /^\d{12}$/;
const REGION = /^[a-z]{2}(-[a-z]+)+-\d+$/;

export const command = defineCommand({
  name: 'deployer-policy',
  about: `Prints a policy of IAM with the rights that a deployment of the packaged template needs: for the types of
resources in it and no others, no action by wildcard, on names of this job and stage where they are known beforehand.
Run \`npx serverless package\` first, with the same stage and parameters.
  --for deployer   who creates, updates and removes the stack with rights of their own (the default)
  --for role       the role of --param deploymentRole, with which CloudFormation makes the changes
  --for ci         who deploys with that role: uploads, change sets, the right to pass it (--param deploymentRole)`,
  options: {
    ...DEPLOYMENT_OPTIONS,
    for: { value: 'who', about: 'deployer, role or ci (default: deployer)' },
    account: { value: 'id', about: 'account, 12 digits (default: any)' },
    region: { value: 'name', about: 'region (default: any)' },
    out: { value: 'dir', about: 'write the policies into this folder, one file each (default: print it)' },
  },
  examples: [
    'deployer-policy --account 123456789012 --region eu-central-1 --out policies',
    'deployer-policy --for ci --param deploymentRole=arn:aws:iam::123456789012:role/cloudformation',
  ],
  async run(values, output) {
    const kind = KINDS.find((one) => one === (values.for ?? 'deployer'));
    if (kind === undefined) throw unexpected('for', KINDS.join(', '), String(values.for));
    const { account, region } = values;
    if (account !== undefined && !ACCOUNT.test(account)) throw unexpected('account', '12 digits', account);
    if (region !== undefined && !REGION.test(region))
      throw unexpected('region', 'a region, as us-east-1', region);
    const { readFacts } = await import('../../infra/doctor/facts.ts');
    const { deployerPolicies, MAX_POLICY_CHARACTERS } = await import(
      '../../infra/template/deployer-policy.ts'
    );
    const { sharedStackOf } = await import('../../infra/doctor/template.ts');
    const request = deploymentRequest('deployer-policy', values);
    const { facts } = await readFacts(request);
    const { template } = facts;
    if (template === undefined)
      throw wrongUse(
        'deployer-policy: there is no packaged template here; `npx serverless package` makes one',
      );
    const { queueName, deploymentRole, sharedRedis } = facts.settings;
    const shared = sharedStackOf(template);
    const { service, stage } = shared ?? { service: serviceName(facts.job.jobName), stage: facts.stage };
    const policies = deployerPolicies({
      kind,
      template,
      service,
      stage,
      queueName,
      redisStack: sharedRedis?.stack,
      account,
      region,
      partition: partitionOf(region ?? ''),
      deploymentRole,
    });
    const [policy] = policies;
    if (values.out === undefined && policies.length === 1) {
      output.answer(policy, JSON.stringify(policy, null, 2));
      return EXIT.ok;
    }
    if (values.out === undefined)
      throw wrongUse(
        `deployer-policy: the rights need ${policies.length} policies, because one holds ${MAX_POLICY_CHARACTERS} characters; --out <dir> writes a file of each`,
      );
    const files = await write(values.out, `${service}-${stage}-${kind}`, policies);
    output.answer({ files }, files.map((file) => `wrote ${file}`).join('\n'));
    return EXIT.ok;
  },
});

async function write(folder: string, name: string, policies: readonly unknown[]): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  return Promise.all(
    policies.map(async (policy, i) => {
      const file = join(folder, policies.length === 1 ? `${name}.json` : `${name}-${i + 1}.json`);
      await writeFile(file, `${JSON.stringify(policy, null, 2)}\n`);
      return file;
    }),
  );
}
