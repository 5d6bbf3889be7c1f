/**
 * In: the HTTP API of a template, or the settings it comes from. Out: who may call it, and how often.
 * Trap: an open API costs money by each call of a stranger; the gateway's own default lets 10,000 a second through.
 */
import { type Facts, type Finding, isProduction, listed, settingsRule, templateRule } from './rule.ts';
import { listOf, numberOf, recordOf, resourcesOf, textOf } from './template.ts';

/** `POST /predict`, or what stands for all of them without a template. */
function openRoutes({ template, settings }: Facts): string[] {
  if (!template) return settings.authorizer === null ? ['every route'] : [];
  return resourcesOf(template, 'AWS::ApiGatewayV2::Route')
    .filter(([, { AuthorizationType }]) => (textOf(AuthorizationType) || 'NONE') === 'NONE')
    .map(([, { RouteKey }]) => textOf(RouteKey))
    .filter((key) => !key.startsWith('OPTIONS'));
}

const auth = settingsRule({
  id: 'api-auth',
  topic: 'HTTP',
  looksAt: 'AuthorizationType of every route',
  why: 'Everybody who finds the address may run the model, read and delete results, at your cost.',
  fix: '--param auth=iam (requests signed with AWS credentials), or an authorizer of your own in front',
  check: (facts) => {
    const open = openRoutes(facts);
    if (open.length === 0) return [];
    return [
      {
        severity: isProduction(facts) ? 'error' : 'warning',
        where: facts.template ? 'HTTP API' : '--param auth',
        found: `no authorization for ${listed(open)} in stage ${facts.stage}`,
        expected: 'AWS_IAM',
      },
    ];
  },
});

const throttling = templateRule({
  id: 'api-throttling',
  topic: 'HTTP',
  looksAt: 'ThrottlingRateLimit and ThrottlingBurstLimit of the API',
  why: 'Without a limit the gateway lets 10,000 requests a second through to functions of which 1,000 may run at once; one caller takes the service from all others.',
  fix: '--param requestsPerSecond',
  check: (template) =>
    resourcesOf(template, 'AWS::ApiGatewayV2::Stage').flatMap(
      ([where, { DefaultRouteSettings }]): Finding[] => {
        const settings = recordOf(DefaultRouteSettings);
        const missing = ['ThrottlingRateLimit', 'ThrottlingBurstLimit'].filter(
          (name) => numberOf(settings[name]) === undefined,
        );
        if (missing.length === 0) return [];
        const found = `no ${missing.join(' and ')}`;
        return [{ severity: 'warning', where, found, expected: 'both, by default 1,000' }];
      },
    ),
});

const cors = settingsRule({
  id: 'api-cors',
  topic: 'HTTP',
  looksAt: 'origins whose pages may call from a browser, of an API without authorization',
  why: 'Any page that a colleague opens can then call the API from inside your network, and read the answers.',
  fix: 'http.corsOrigins in config.yaml: the origins of your own pages; or --param auth=iam',
  check: (facts) => {
    const { template, job } = facts;
    const origins = template
      ? resourcesOf(template, 'AWS::ApiGatewayV2::Api').flatMap(([, { CorsConfiguration }]) =>
          listOf(recordOf(CorsConfiguration)['AllowOrigins']).map(textOf),
        )
      : job.http.corsOrigins;
    if (!origins.includes('*') || openRoutes(facts).length === 0) return [];
    return [
      {
        severity: isProduction(facts) ? 'error' : 'warning',
        where: template ? 'HTTP API' : 'http.corsOrigins',
        found: 'every origin ("*"), and no authorization',
        expected: 'the origins that need it',
      },
    ];
  },
});

export const HTTP_RULES = [auth, throttling, cors];
