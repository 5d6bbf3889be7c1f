/** Validates what a company asks of every resource (conventions.ts), and of who calls. */
import type { Checks, Rule } from './parameter-checks.ts';

const POLICY = /^arn:aws[a-z-]*:iam::(\d{12}|aws):policy\/[\w+=,.@/-]{1,512}$/;
const PATH = /^\/([\w+=,.@-]{1,64}\/){1,8}$/;
const TAG = /^(?!aws:)[\w .:/+@-]{1,128}=[\w .:/=+@-]{0,256}$/;
const KEY = /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]{1,64}$/;
const LOG_PREFIX = /^(?!\/aws)(\/[\w.#-]{1,64}){1,6}$/;
const POLLERS = /^([2-9]|[1-9]\d|1\d\d|200)-([2-9]|[1-9]\d{1,2}|1\d{3}|2000)$/;
const SCOPES =
  /^(predict|submit|predictions|status)=[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]+( [\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]+)*$/;

type Read = ReturnType<typeof readConventions>;

export function readConventions(check: Checks) {
  return {
    permissionsBoundary: check.matches('permissionsBoundary', POLICY, 'the ARN of a policy of IAM'),
    rolePath: check.matches('rolePath', PATH, 'a path, as /team/'),
    tags: check.list('tags', TAG, 'name=value, separated by commas'),
    kmsKey: check.matches('kmsKey', KEY, 'the ARN of a key of KMS'),
    logPrefix: check.matches('logPrefix', LOG_PREFIX, 'the beginning of a name, as /company/team'),
    pollers: check.matches('pollers', POLLERS, 'least-most, from 2-2 to 200-2000'),
    jwtScopes: check.list('jwtScopes', SCOPES, 'a function and its scopes, as predict=models/run'),
    callerLog: check.oneOf('callerLog', ['on', 'off']),
  };
}

export function conventionRules(read: Read, auth: string): Rule[] {
  return [
    [auth !== 'jwt' && read.jwtScopes.length > 0, `param jwtScopes belongs to auth=jwt, and auth is ${auth}`],
    [
      new Set(read.jwtScopes.map(functionOf)).size < read.jwtScopes.length,
      'param jwtScopes: name each function once, with a space between its scopes',
    ],
    [
      read.pollers !== '' && Number(read.pollers.split('-')[0]) > Number(read.pollers.split('-')[1]),
      `param pollers ${JSON.stringify(read.pollers)}: expected the least before the most`,
    ],
    [read.tags.length > 40, 'param tags: a resource of AWS has at most 50, and some are taken'],
  ];
}

/** Of a text of jwtScopes. */
export function functionOf(scopes: string): string {
  return scopes.slice(0, scopes.indexOf('='));
}
