/**
 * Resolves ${file(…/infra/config.cjs):…} in serverless.yml with the settings that config.ts computes from config.yaml
 * and the parameters. osls calls functions in .js and .cjs files only (it reads .mjs as text). It needs the service's
 * name before it knows the parameters of serverless.yml, so `--param config=...` is read from the command line only.
 */
const { configOf, importModule, serviceFolder } = require('./load.cjs');

const modules = new Map();

/** Each once: the checkout bundles it first. */
async function load(name) {
  if (!modules.has(name)) modules.set(name, importModule(name));
  return modules.get(name);
}

async function explained(work) {
  try {
    return await work();
  } catch (error) {
    // For a wrong setting the message is enough; osls prints the stack.
    if (error.code === 'bad_config') error.stack = error.message;
    throw error;
  }
}

async function requestOf({ options, resolveVariable }, names) {
  const stage = await resolveVariable('sls:stage');
  const values = await Promise.all(names.map((name) => resolveVariable(`param:${name}`)));
  return {
    stage,
    parameters: Object.fromEntries(names.map((name, i) => [name, values[i]])),
    named: [options.param ?? []].flat().map((text) => text.slice(0, text.indexOf('='))),
  };
}

module.exports = {
  async service({ options }) {
    const { readService } = await load('config');
    return explained(async () => readService(serviceFolder, configOf(options)));
  },

  async settings(resolving) {
    const { PARAMETER_NAMES, readSettings } = await load('config');
    return explained(async () => {
      const request = await requestOf(resolving, PARAMETER_NAMES);
      return readSettings(serviceFolder, { ...request, config: configOf(resolving.options) });
    });
  },

  /** Of shared-redis.yml. */
  async sharedRedis(resolving) {
    const { SHARED_PARAMETER_NAMES, readSharedRedis } = await load('shared-redis');
    // `remove` and `info` find the stack by its name alone.
    const needsJobs = process.argv.some((word) => word === 'deploy' || word === 'package');
    return explained(async () =>
      readSharedRedis({ ...(await requestOf(resolving, SHARED_PARAMETER_NAMES)), needsJobs }),
    );
  },
};
