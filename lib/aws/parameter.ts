/** Reads a parameter of AWS Systems Manager, of type SecureString, without the AWS SDK. */
import { asError } from '../contract/errors.ts';
import { type AwsPlace, callAws, parsed, reasonOf } from './call.ts';

const ATTEMPTS = 2;
const ATTEMPT_MS = 2_000;

/** AWS answered, so asking again changes nothing. */
class Refused extends Error {}

/** @param name as "/my-job/redis". @throws an error with the reason that AWS gives */
export async function parameterValue(place: AwsPlace, name: string): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await askFor(place, name);
    } catch (error) {
      if (error instanceof Refused || attempt === ATTEMPTS) throw asError(error);
    }
  }
}

async function askFor(place: AwsPlace, name: string): Promise<string> {
  const answer = await callAws(place, {
    service: 'ssm',
    headers: { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': 'AmazonSSM.GetParameter' },
    body: JSON.stringify({ Name: name, WithDecryption: true }),
    limitMs: ATTEMPT_MS,
  });
  const { Parameter }: { readonly Parameter?: { readonly Value?: unknown } | null } = parsed(answer.text);
  const value = Parameter?.Value;
  if (answer.status === 200 && typeof value === 'string' && value !== '') return value;
  throw answer.status >= 500 ? new Error(reasonOf(answer)) : new Refused(reasonOf(answer));
}
