/** The server of Redis. */
export { RedisEngine } from '../../../embedded-redis/engine.ts';
export { startEmbedded } from '../../../embedded-redis/server.ts';
