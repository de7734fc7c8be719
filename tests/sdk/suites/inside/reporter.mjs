// A reporter for node:test: one line of JSON for each finished test or suite.
import { inspect } from 'node:util';

export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const error = data.details.error;
    yield JSON.stringify({
      name: data.name,
      suite: data.details.type === 'suite',
      passed: type === 'test:pass',
      skipped: data.skip ?? false,
      failure: error?.failureType ?? '',
      error: error ? inspect(error.cause ?? error, { depth: 6 }) : '',
    }) + '\n';
  }
}
