// Starts one node of Elasticsearch from its jars: StartNode <home> <config folder> <name>
// The server's own start-up asks for a distribution that is not published as artifacts.

import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

public class StartNode {
    public static void main(String[] arguments) throws Exception {
        LogConfigurator.configureESLogging();
        Settings settings = Settings.builder().put("path.home", arguments[0]).build();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings, Map.of(), Path.of(arguments[1]), () -> arguments[2]);
        LogConfigurator.configure(environment, true);
        var modules = PluginsLoader.loadModulesBundles(environment.modulesDir(), false);
        var plugins = PluginsLoader.createPluginsLoader(modules, Set.of(), Map.of());
        Node node = new Node(environment, plugins);
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception error) {
                error.printStackTrace();
            }
            closed.countDown();
        }));
        node.start();
        closed.await();
    }
}
