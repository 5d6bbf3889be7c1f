/**
 * Resolves ${file(…/infra/config.cjs):…} in serverless.yml with the settings that config.ts computes from config.yaml
 * and the parameters. osls calls functions in .js and .cjs files only (it reads .mjs as text). It needs the service's
 * name before it knows the parameters of serverless.yml, so `--param config=...` is read from the command line only.
 */
const { join, relative, sep } = require('node:path');
const { configOf, importModule, packageFolder, serviceFolder } = require('./load.cjs');

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

/** Parameters that neither the command line nor the user's file names have the default of `file`, of this package. */
async function requestOf({ options, resolveVariable, resolveConfigurationProperty }, names, file) {
  const stage = await resolveVariable('sls:stage');
  const { stageParameters } = await load('template/stage-parameters');
  const usual = await stageParameters(join(packageFolder, file), stage);
  const given = await Promise.all(names.map((name) => resolveVariable(`param:${name}, null`)));
  const own = await resolveConfigurationProperty(['params']);
  return {
    stage,
    parameters: Object.fromEntries(names.map((name, i) => [name, given[i] ?? usual[name]])),
    named: [
      ...Object.keys({ ...own?.default, ...own?.[stage] }),
      ...[options.param ?? []].flat().map((text) => text.slice(0, text.indexOf('='))),
    ],
  };
}

/** Where the parts of the stack are, from the folder with serverless.yml, as osls takes the path of a file. */
const stack = relative(serviceFolder, join(__dirname, 'stack')).replaceAll(sep, '/');

module.exports = {
  async service({ options }) {
    const { readService } = await load('template/config');
    return explained(async () => readService(serviceFolder, configOf(options)));
  },

  async settings(resolving) {
    const { PARAMETER_NAMES, readSettings } = await load('template/config');
    return explained(async () => {
      const request = await requestOf(resolving, PARAMETER_NAMES, 'serverless.yml');
      const config = configOf(resolving.options);
      return { ...readSettings(serviceFolder, { ...request, config }), stack };
    });
  },

  /** Of shared-redis.yml. */
  async sharedRedis(resolving) {
    const { SHARED_PARAMETER_NAMES, readSharedRedis } = await load('template/shared-redis');
    // `remove` and `info` find the stack by its name alone.
    const needsJobs = process.argv.some((word) => word === 'deploy' || word === 'package');
    return explained(async () => {
      const request = await requestOf(resolving, SHARED_PARAMETER_NAMES, 'shared-redis.yml');
      return { ...readSharedRedis({ ...request, needsJobs }), stack };
    });
  },
};
