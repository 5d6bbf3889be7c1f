/**
 * In: roles, policies and variables of a template. Out: who may do more than needed, and secrets in the open.
 * Trap: a finding about a secret names the variable and never shows a character of its value.
 */
import { functionsOf } from './deployment.ts';
import { type Finding, listed, templateRule } from './rule.ts';
import { allStatements, listOf, resourcesOf, type Statement, type Template, textOf } from './template.ts';

/** Actions for which IAM knows no resource, so that "*" is all one can say. */
const WITHOUT_RESOURCE =
  /^(ec2:(CreateNetworkInterface|DeleteNetworkInterface|Describe\w+|(Una|A)ssignPrivateIpAddresses)|xray:(Put\w+|GetSampling\w+)|cloudwatch:PutMetricData)$/;
const ENI = 'ec2:CreateNetworkInterface';

const allowed = (template: Template) => allStatements(template).filter(({ effect }) => effect === 'Allow');

const place = ({ owner, sid }: Statement) => (sid === '' ? owner : `${owner} (${sid})`);

const wildcardAction = templateRule({
  id: 'iam-wildcard-action',
  topic: 'Access',
  looksAt: 'actions that roles allow',
  why: 'A function that is made to run foreign code may then do all of it: delete the bucket, read every queue.',
  fix: 'name the actions in infra/stack/roles.yml; docs/deploy.md says what each function needs',
  check: (template) => {
    const statements = allowed(template).flatMap((statement): Finding[] => {
      const wild = statement.actions.filter((action) => action.includes('*'));
      if (wild.length === 0) return [];
      return [
        { severity: 'error', where: place(statement), found: listed(wild), expected: 'actions by name' },
      ];
    });
    const managed = resourcesOf(template, 'AWS::IAM::Role').flatMap(
      ([where, { ManagedPolicyArns }]): Finding[] => {
        const wide = listOf(ManagedPolicyArns)
          .map(textOf)
          .filter((arn) => /FullAccess|AdministratorAccess|PowerUser/.test(arn));
        if (wide.length === 0) return [];
        return [{ severity: 'error', where, found: listed(wide), expected: 'a policy of its own' }];
      },
    );
    return [...statements, ...managed];
  },
});

const wildcardResource = templateRule({
  id: 'iam-wildcard-resource',
  topic: 'Access',
  looksAt: 'statements that allow on every resource',
  why: 'An action on "*" reaches every queue and bucket of the account. Only actions for which IAM knows no resource (network interfaces, X-Ray, PutMetricData) have a reason.',
  fix: 'Resource in infra/stack/roles.yml: the ARN of the one queue or the prefix in the one bucket',
  check: (template) =>
    allowed(template).flatMap((statement): Finding[] => {
      const isWild = statement.resources.some((resource) => textOf(resource) === '*');
      const unreasoned = statement.actions.filter((action) => !WITHOUT_RESOURCE.test(action));
      if (!isWild || unreasoned.length === 0) return [];
      const found = `${listed(unreasoned)} on "*"`;
      return [{ severity: 'error', where: place(statement), found, expected: 'the resources by name' }];
    }),
});

const sharedRole = templateRule({
  id: 'iam-shared-role',
  topic: 'Access',
  looksAt: 'roles that several functions have',
  why: 'Each of them may then do what any of them needs: the function that answers strangers could delete from the queue.',
  fix: 'role of each function in serverless.yml, one role each in infra/stack/roles.yml',
  check: (template) => {
    const users = new Map<string, string[]>();
    for (const { name, properties } of functionsOf(template)) {
      const role = textOf(properties['Role']);
      users.set(role, [...(users.get(role) ?? []), name]);
    }
    return [...users]
      .filter(([role, names]) => role !== '' && names.length > 1)
      .map(([role, names]) => ({
        severity: 'warning',
        where: role,
        found: `the role of ${listed(names)}`,
        expected: 'one role for each function',
      }));
  },
});

const interfaces = templateRule({
  id: 'iam-interfaces',
  topic: 'Access',
  looksAt: 'the right to make network interfaces, which Lambda needs and our code does not',
  why: "Lambda attaches a function to the VPC with the function's own role; without a Deny for the function itself its code may do the same, on every network of the account.",
  fix: 'the statement NotFromCode (lambda:SourceFunctionArn) beside AttachToVpc in infra/stack/roles.yml',
  check: (template) => {
    const denied = allStatements(template)
      .filter(({ effect, actions, condition }) => {
        const isForCode = JSON.stringify(condition ?? {}).includes('lambda:SourceFunctionArn');
        return effect === 'Deny' && actions.includes(ENI) && isForCode;
      })
      .map(({ owner }) => owner);
    return allowed(template)
      .filter(({ owner, actions }) => actions.includes(ENI) && !denied.includes(owner))
      .map((statement) => ({
        severity: 'warning',
        where: place(statement),
        found: `${ENI}, not denied to the code`,
        expected: 'a Deny with the condition lambda:SourceFunctionArn',
      }));
  },
});

/** Names that say it; an ARN or a name of a secret is none. */
const SECRET_NAME =
  /(passw(or)?d|passphrase|secret|token|api_?key|private_?key|access_?key|credentials?)(?!.*_(arn|id|name|url)$)/i;
const SECRET_VALUES: readonly (readonly [RegExp, string])[] = [
  [/:\/\/[^/\s@]*:[^/\s@]+@/, 'a url with a password'],
  [/\b(AKIA|ASIA)[0-9A-Z]{16}\b/, 'an AWS access key'],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----/, 'a private key'],
  [/\b(gh[pousr]_\w{30,}|xox[abp]-[\w-]{10,})\b/, 'a token of GitHub or Slack'],
  [/\{\{resolve:(secretsmanager|ssm-secure):/, 'a secret that CloudFormation puts there as plain text'],
];

const secrets = templateRule({
  id: 'secrets-in-environment',
  topic: 'Access',
  looksAt: 'names and values of variables that look like passwords, keys or tokens',
  why: 'Everybody who may read the configuration of a function (lambda:GetFunctionConfiguration) reads its variables, and so does every template and log of a deployment.',
  fix: 'take it out of serverless.yml; roles need no keys, and Redis lets in by IAM',
  check: (template) =>
    functionsOf(template).flatMap(({ name, variables }) =>
      Object.entries(variables).flatMap(([variable, value]): Finding[] => {
        const text = textOf(value);
        const kind = SECRET_VALUES.find(([pattern]) => pattern.test(text))?.[1];
        const isNamed = SECRET_NAME.test(variable) && text !== '';
        if (kind === undefined && !isNamed) return [];
        const found = `${variable}: ${kind ?? 'named like a secret, with a value'}`;
        return [{ severity: 'error', where: name, found, expected: 'no secrets in variables' }];
      }),
    ),
});

export const ACCESS_RULES = [wildcardAction, wildcardResource, sharedRole, interfaces, secrets];
