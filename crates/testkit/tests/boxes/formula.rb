# Stands in for Homebrew: evaluates a formula in an unpacked tarball, and prints what it downloads, installs and starts.
require "json"

# A folder of Homebrew, which notes what is installed into it.
class Folder
  def initialize(path, installed)
    @path = path
    @installed = installed
  end

  def /(other)
    Folder.new("#{@path}/#{other}", @installed)
  end

  def to_s
    @path
  end

  def install(what)
    pairs = what.is_a?(Hash) ? what : [what].flatten.to_h { |path| [path, File.basename(path)] }
    pairs.each do |path, name|
      raise "no such file: #{path}" unless File.file?(path)

      @installed << "#{@path}/#{name}"
    end
  end
end

class Formula
  class << self
    attr_reader :downloads, :told

    def inherited(formula)
      formula.instance_variable_set(:@downloads, {})
      formula.instance_variable_set(:@told, {})
      super
    end

    %i[desc homepage license depends_on].each { |word| define_method(word) { |value| @told[word] = value } }
    %i[url sha256].each { |word| define_method(word) { |value| (@downloads[@cpu] ||= {})[word] = value } }
    %i[on_intel on_arm].each do |word|
      define_method(word) do |&block|
        @cpu = word
        block.call
      end
    end

    def service(&block)
      @service = block
    end

    def test(&); end

    def service_of(formula)
      told = {}
      note = Object.new
      %i[run keep_alive error_log_path].each do |word|
        note.define_singleton_method(word) { |value| told[word] = [value].flatten.map(&:to_s) }
      end
      %i[opt_bin etc var].each { |word| note.define_singleton_method(word) { formula.public_send(word) } }
      note.instance_eval(&@service)
      told
    end
  end

  attr_reader :installed

  def initialize
    @installed = []
  end

  %i[bin opt_bin etc var man1 bash_completion zsh_completion fish_completion].each do |word|
    define_method(word) { Folder.new(word.to_s, @installed) }
  end
end

load ARGV[0]
formula = Birdhouse.new
formula.install
puts JSON.generate(
  told: Birdhouse.told,
  downloads: Birdhouse.downloads,
  installed: formula.installed,
  caveats: formula.caveats,
  service: Birdhouse.service_of(formula),
)
