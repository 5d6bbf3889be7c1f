/** Signs a function in to its Redis, where the address holds no password. */
import { readAddress } from './address.ts';
import type { SignIn } from './connection.ts';
import { type CredentialSource, cachePassword } from './iam.ts';
import { CachedSecret, type ParameterSecret, readParameter } from './secret.ts';

type RedisSignIn =
  | (Pick<ParameterSecret, 'region' | 'credentials'> & { readonly cache: string; readonly user: string })
  | (ParameterSecret & { readonly user: string | undefined });

export interface RedisPlace {
  readonly redisUrl: string;
  /** Asked each time, because the credentials of a long-lived environment may have been renewed. */
  readonly redisSignIn?: RedisSignIn | undefined;
  /** For an address that has a cache and a user of IAM. */
  readonly credentials?: CredentialSource | undefined;
  /** The most that it stores, where it would evict results beyond that. */
  readonly redisMaxBytes?: number | undefined;
}

/** @returns undefined where the address is enough */
export function signInOf(place: RedisPlace): SignIn | undefined {
  const signIn = place.redisSignIn;
  if (!signIn) return undefined;
  const renewed = () => ({ credentials: (place.redisSignIn ?? signIn).credentials });
  if ('parameter' in signIn) {
    const secret = new CachedSecret(() => readParameter({ ...signIn, ...renewed() }), Date.now);
    return {
      username: signIn.user,
      password: () => secret.get(),
      changedPassword: () => secret.getChanged(),
    };
  }
  // A cache in cluster mode that a deployment creates is serverless.
  const isServerless = readAddress(place.redisUrl).isCluster;
  const password = () => cachePassword({ ...signIn, ...renewed(), isServerless }, Date.now());
  return { username: signIn.user, password };
}
