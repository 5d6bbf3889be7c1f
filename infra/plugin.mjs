/**
 * The osls plugin behind `serverless package`, `deploy` and `publish`: builds dist/<function>/ before osls zips it,
 * and uploads the model after a deployment or alone. osls uses the default export only and may load this file with
 * require, so there is no top-level await.
 */
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { configOf, importModule, isCheckout, packageFolder, serviceFolder } from './load.cjs';

const PROCESSORS = { x86_64: 'x64', arm64: 'arm64' };

class BundlePlugin {
  constructor(serverless, options, { log, progress }) {
    this.serverless = serverless;
    this.options = options;
    this.log = log;
    this.progress = progress;
    this.commands = {
      publish: { usage: 'Upload the model of config.yaml and let it serve', lifecycleEvents: ['publish'] },
    };
    this.hooks = {
      'before:package:createDeploymentArtifacts': async () => {
        // First, so that a model that cannot serve stops a package or deploy before anything is created.
        await this.during('Looking at the model', () => this.prepare());
        await this.during('Bundling the functions', () => this.bundle());
      },
      'after:package:createDeploymentArtifacts': () => this.showSizes(),
      'after:deploy:deploy': () => this.during('Publishing the model', () => this.publish()),
      'publish:publish': () => this.during('Publishing the model', () => this.publish()),
    };
  }

  async during(message, work) {
    const running = this.progress.create({ message });
    try {
      await work();
    } catch (error) {
      // Errors that the user can fix are shown without a stack, as osls shows its own.
      const { Error: Told } = this.serverless.classes ?? {};
      const isTheirs = error.name === 'ServingError' && error.code !== 'internal';
      throw Told && isTheirs ? new Told(error.message, error.code) : error;
    } finally {
      running.remove();
    }
  }

  async prepare() {
    const { prepareModel } = await importModule('publish');
    const { directory, isThere, notes } = await prepareModel({
      root: serviceFolder,
      config: configOf(this.options),
    });
    for (const note of notes) this.log.notice(note);
    if (!isThere) this.log.notice(`no model directory ${directory}: the stack will have no model yet`);
  }

  /** Also reports the keys of an old config.yaml that have another equivalent here. */
  async bundle() {
    const { readJobConfig } = await importModule('config');
    for (const note of readJobConfig(serviceFolder, configOf(this.options)).notes) this.log.notice(note);
    const processor = PROCESSORS[this.serverless.service.provider.architecture];
    const request = {
      root: packageFolder,
      processor,
      outFolder: relative(packageFolder, join(serviceFolder, 'dist')),
    };
    this.bundles = await this.makeFunctions(request);
    this.log.info(`bundled for ${processor}: ${this.bundles.map(({ name }) => name).join(', ')}`);
  }

  /** The published package contains the bundles, so that the tested code is deployed. */
  async makeFunctions(request) {
    if (isCheckout) return (await importModule('build/functions')).buildFunctions(request);
    return (await importModule('build/prebuilt')).copyFunctions(request);
  }

  async showSizes() {
    const { sizeTable } = await importModule('build/sizes');
    const archives = Object.entries(this.serverless.service.functions).map(([name, { handler }]) => ({
      name,
      path: join(serviceFolder, '.serverless', `${name}.zip`),
      // dist/<bundle>/index.handler
      bundle: this.bundles.find((bundle) => bundle.name === handler.split('/')[1]),
    }));
    for (const line of await sizeTable(archives)) this.log.notice(line);
  }

  async publish() {
    const provider = this.serverless.getProvider('aws');
    const { publishJob } = await importModule('publish');
    const { directory, version, notes } = await publishJob({
      root: serviceFolder,
      config: configOf(this.options),
      bucket: await this.bucket(provider),
      client: await provider.getAwsSdkV3Config(),
    });
    for (const note of notes) this.log.notice(note);
    if (version === undefined) {
      this.log.warning(
        `no model directory ${directory}: /ready answers 503 until "serverless publish" finds one`,
      );
    } else {
      this.log.notice(`model ${version} from ${directory} serves from now on`);
    }
  }

  /** The name that CloudFormation gave to the resource Bucket. */
  async bucket(provider) {
    // The client comes from osls, so its commands must too.
    const { DescribeStackResourceCommand } = createRequire(
      createRequire(import.meta.url).resolve('serverless/package.json'),
    )('@aws-sdk/client-cloudformation');
    const cloudFormation = await provider.getCloudFormationClient();
    const StackName = provider.naming.getStackName();
    const { StackResourceDetail } = await cloudFormation.send(
      new DescribeStackResourceCommand({ StackName, LogicalResourceId: 'Bucket' }),
    );
    return StackResourceDetail.PhysicalResourceId;
  }
}

export { BundlePlugin as default };
