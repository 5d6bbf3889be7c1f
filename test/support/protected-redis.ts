/** A redis-server that lets nobody in but the users of a test, with the rules that a deployment gives them. */
import { Redis } from 'ioredis';
import { startRedis } from '../../local/redis/start.ts';
import { type Hooks, temporaryFolder } from './runner.ts';

export interface ProtectedRedis {
  readonly url: string;
  readonly admin: Redis;
  /** With these rules, and this password as the only one from now on. */
  setUser(name: string, rules: readonly string[], password: string): Promise<void>;
}

/** @returns undefined where there is no redis-server */
export async function protectedRedis(t: Hooks): Promise<ProtectedRedis | undefined> {
  const server = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => server.close());
  if (server.kind === 'embedded') return undefined;
  const admin = new Redis(server.url);
  t.after(async () => admin.disconnect());
  await admin.acl('SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all');
  await admin.auth('admin', 'admin');
  await admin.acl('SETUSER', 'default', 'off');
  return {
    url: server.url,
    admin,
    async setUser(name, rules, password) {
      await admin.acl('SETUSER', name, 'reset', ...rules, `>${password}`);
    },
  };
}
