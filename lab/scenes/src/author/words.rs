//! Words that state no fact, for the captions of [`super`].

/// How something looks or behaves.
pub(super) const ADJECTIVES: &str = "able abrupt absent abundant active agile airy alert amber ample ancient antique arctic ardent artful \
    austere autumnal awkward balmy bare bashful beaming bitter blazing bleak blithe blunt boisterous bold \
    bony boundless bountiful brave breezy brief bright brilliant brisk brittle broad bubbly bulky buoyant \
    burly bustling busy calm candid carefree careful cautious ceaseless celestial certain charming cheerful \
    chilly choppy clean clear clever cloudy clumsy coarse cold comely common compact complete composed \
    content cool cordial cosmic courtly cozy crafty crisp crooked crude cryptic cunning curious curly curved \
    dainty damp dapper daring dark dashing dazzling dear decent deep delicate dense devoted devout dignified \
    dim direct discreet distant docile dogged dozing dreamy drowsy dry dull dusky dusty dutiful eager \
    earnest earthy easy eccentric elastic elated elegant eloquent elusive eminent empty endless enormous \
    erratic esteemed eternal even exact exotic expert fabled faded faint fair faithful famous fancy faraway \
    fearless feeble fertile fervent festive fickle fierce fiery fine firm fitful fleeting flexible flimsy \
    floral fluent fluffy flush focused fond formal frail frank free fresh friendly frosty frozen frugal full \
    funny furtive fuzzy gallant gaudy generous genial gentle genuine ghostly giddy gifted gilded glad glassy \
    gleaming glib gloomy glorious glossy glowing golden graceful gracious grand grateful grave grim gritty \
    groomed gruff guarded gusty handsome handy happy hardy harmless harsh hasty haughty hazy hearty heavy \
    hectic heroic hidden hoarse hollow homely honest hopeful hot hovering humble humid hungry hushed icy \
    ideal idle immense inborn inert innate intact intense intrepid ironic ivory jagged jaunty jolly jovial \
    joyful jubilant juicy keen kind kindly knowing labored languid lavish lazy lean learned legal lenient \
    light lithe lively lofty logical lonely longing loose lordly loud lovely loving loyal lucid lucky \
    luminous lunar lush lusty magic magnetic majestic mature meager measured meek mellow menial merry mighty \
    mild mindful misty mobile modern modest moist moody mournful muddy muffled mundane murky musical muted \
    mystic naive narrow native neat needy nervous nimble noble nocturnal noisy normal novel numb obedient \
    obscure odd oily olden opaque open ordinary ornate outer oval pale parched pastel patient peaceful \
    pearly pensive perfect perky petite placid playful pleasant plucky plump plush poised polished polite \
    ponderous poor portly potent prickly prim primal private prompt proper proud prudent pudgy pure puzzled \
    quaint quick quiet quirky radiant ragged rapid rare raw ready regal regular relaxed reliable remote \
    resolute restful restless rich rigid ripe robust rocky rough round rowdy royal ruddy rugged rural rustic \
    rusty sacred sage salty sandy sane satin scant scenic secret secure sedate selfish senior serene serious \
    severe shabby shady shaky shallow sharp sheer shiny short shrewd shrill shy silent silken silky silly \
    silver simple sincere sleek sleepy slender slick slight slim slow sluggish sly smart smiling smoky \
    smooth snug sober sociable soft solar solemn somber sonic soothing sour spare sparse spicy spirited \
    splendid spotless spry stable stately static steadfast steady steep stern sticky stiff still stoic stony \
    stout straight strange strict strong stubborn sturdy suave subtle sudden sullen sultry sunny superb \
    supple sure swanky sweet swift tactful tall tame tardy tart tasteful tawny tender tense tepid thick thin \
    thirsty thorough thoughtful thrifty tidal tidy tight timely timid tireless tough tranquil trim tropical \
    true trusty tuneful twisted ugly unbent uneven unhurried unique untold upbeat upright urban urgent \
    useful vacant vague valiant vast velvet verbal versed vibrant vigilant vital vivid vocal volatile \
    wandering warm wary watchful wavy wayward weary weathered weighty whimsical wholesome wide wild willing \
    wily windy winged winsome wintry wiry wise wistful witty wobbly wonderful wooden woolen worldly worn \
    worthy wry yearning young youthful zealous zesty";

/// What something is likened to.
pub(super) const NOUNS: &str = "abacus abbey acorn acrobat actor admiral agate albatross alcove almond alpaca altar anchor anemone angel \
    angler ant antelope anvil apple apricot apron arcade arch archer armchair arrow artist ash aspen aster \
    astronaut atlas attic auditor avalanche axe baboon badge badger bagel baker balcony ballad ballerina \
    balloon bamboo banana bandit banjo banner barge barley barn barrel basin basket bassoon bat bay beacon \
    bead beagle beak bean bear beaver bee beehive beetle beggar bell bench berry bicycle birch bishop bison \
    blanket blossom boat bobbin bonfire bonnet book boot bottle boulder bouquet bowl boxer bracelet bramble \
    branch bread breeze brick bride bridge brook broom brush bubble bucket buckle buffalo bugle bulb bull \
    bullet bumblebee bungalow butcher butler butter butterfly button cabbage cabin cactus cage cake calendar \
    calf camel camera camp canal canary candle canoe canopy canyon cape captain caravan cardinal cargo \
    caribou carnival carp carpet carriage carrot cart cashew castle cat cathedral cauldron cave cedar celery \
    cellar cello chair chalice chapel chariot cheese cherry chess chestnut chick chief child chimney chisel \
    choir cider cinder cinema citadel citizen clam clarinet clay clerk cliff cloak clock cloth cloud clover \
    clown coach coast cobbler cobra cobweb coconut cod coffee coin colt column comet compass concert condor \
    cook copper coral cord cork corn corridor cottage cotton couch cougar count courtyard cousin cow coyote \
    crab cradle crane crater crayon creek cricket crocus crow crown crumb crystal cub cuckoo cup cupboard \
    curtain cushion cypress dagger dahlia daisy dam dancer dandelion dart dawn deer desert desk detective \
    dew diamond diary dice diver dock doctor dog doll dolphin domino donkey door dough dove dragon dragonfly \
    drawer dream dress drifter driver drop drum drummer duchess duck dune dwarf eagle earl easel echo eel \
    egg elbow elder elephant elf elk elm ember emperor engine envelope ermine estuary explorer fable fabric \
    falcon family fan farmer fawn feather fence fern ferret ferry fiddle field fig finch fir fire fisher \
    flag flame flamingo flask flea fleet flint flock flood floor flour flower flute foal fog forest forge \
    fork fort fossil fountain fox frame freighter friar frog frost fruit furnace galaxy galleon gallery \
    garden garland garlic garnet gate gazelle gecko gem geyser giant giraffe girl glacier glade glass glider \
    globe glove goat goblet goose gopher gorge gourd grain granite grape grass gravel griffin grotto grove \
    guard guest guitar gull gust gypsum hail hammer hammock hamster harbor hare harness harp harvest hat \
    hawk hay hazel heart hearth hedge hedgehog helmet hen herald herb hermit hero heron herring hill hive \
    holly honey hood hook horizon horn hornet horse hotel hound house hunter hut hyena ibis iceberg icicle \
    inkwell inn iris iron island ivy jackal jacket jade jaguar jar jasmine jay jelly jester jewel judge jug \
    juggler juniper kayak kelp kernel kettle key kimono king kitchen kite kitten knight knot koala lace \
    ladder lady lagoon lake lamb lamp lantern larch lark laurel lava lawn lawyer leaf ledger legend lemur \
    lens leopard letter library lighthouse lilac lily lime linen lion lizard llama lobster locket locust \
    lodge log loom lotus lute lynx macaw magician magnet magnolia magpie maid mallard mallet mango mansion \
    mantle maple marble mare market marsh marten mask mason mast mattress mayor meadow medal melon merchant \
    mermaid meteor mill miner minnow minstrel mirror mist mitten moat mole monarch monk monkey monument moon \
    moose mosaic moss moth motor mountain mouse mule museum mushroom musician nail napkin needle nest nettle \
    newt night nomad notebook nun nurse nutmeg oak oar oasis oat obelisk ocean octopus olive onion onyx opal \
    opera orchard orchid organ oriole osprey ostrich otter oven owl ox oyster paddle page pageant painter \
    palace palm panda panther paper parade parasol parcel parchment parrot parsley partridge passenger \
    pasture path patio pavilion pawn peach peacock peanut pear pearl pebble pelican pen penguin pennant \
    peony pepper perch petal pheasant phoenix photograph piano pickle pier pigeon pilgrim pillar pillow \
    pilot pine pirate pitcher planet plank plate plaza plow plum poet polar pond pony poplar poppy porch \
    porcupine port postcard pot potato potter powder prairie prayer priest prince princess prism prophet \
    puddle puffin pulley puma pumpkin pupil puppet puppy puzzle pyramid quail quarry quartz queen quill \
    quilt rabbit raccoon radish raft railway rain rainbow raisin ram ranger raven razor reed reef referee \
    reindeer ribbon rice rider river road robe robin rocket rogue roof rooster root rope rosemary rower ruby \
    rug ruin runner saddle saffron sail sailor saint salad salmon salt sand sandal sapling sapphire sardine \
    scarecrow scarf scholar school scout scroll sculptor sea seagull seal sentry serpent shadow shark shawl \
    sheep shell shepherd shield ship shoe shore shovel shrine shrub shutter siren sister skater skiff skunk \
    sky skylark slipper snail snake snow snowflake soap soldier song soup sparrow spear sphinx spice spider \
    spire sponge spoon spring spruce squid squirrel stag stage star starfish statue steam steeple stork \
    storm stove stranger straw stream street sugar suitcase summer sundial sunflower sunrise swallow swan \
    sword sycamore table tailor tambourine tapestry teacher teacup teapot telescope temple tent termite \
    thief thimble thistle thorn throne thrush thunder tide tiger timber toad toast tomato torch tortoise \
    tower toy trader traveler tray treasure tree trellis trolley trout truck trumpet trunk tulip tunnel \
    turnip turtle twig uncle unicorn urn vagabond valley vase vault veil viaduct village vine vineyard \
    violin viper visitor volcano voyager vulture wagon waiter walnut walrus waltz warden warrior wasp water \
    waterfall wave weasel weaver whale wheat wheel whisper whistle widow willow wind windmill window wine \
    winter witch wizard wolf wombat wood wool wren wrestler yacht yak yew zebra zenith zephyr zinnia";

/// How something moves.
pub(super) const ADVERBS: &str = "abruptly absently actively adroitly amiably amply anxiously aptly ardently artfully attentively avidly \
    awkwardly bashfully blandly blankly blindly blissfully blithely bluntly boldly brashly bravely briefly \
    brightly briskly broadly busily calmly candidly capably carefully carelessly casually cautiously \
    cheerfully cleanly clearly cleverly closely clumsily coldly comfortably completely confidently \
    constantly coolly correctly courageously coyly crisply curiously daintily dangerously daringly darkly \
    deeply deftly deliberately delicately densely devotedly diligently dimly directly discreetly dizzily \
    doggedly doubtfully dreamily drowsily dryly dully dutifully eagerly earnestly easily elegantly \
    eloquently endlessly energetically enormously equally erratically evenly exactly expertly faintly fairly \
    faithfully famously fearlessly feebly fervently festively fiercely finely firmly fitfully fleetingly \
    fluently fondly foolishly formally frankly freely frequently freshly fully furiously furtively gaily \
    gallantly generously genially gently genuinely giddily gladly gloomily gloriously gracefully graciously \
    gradually grandly gratefully gravely greatly greedily grimly gruffly habitually handily happily hardily \
    harmlessly harshly hastily haughtily hazily heartily heavily heroically highly honestly hopefully hotly \
    humbly hungrily idly immensely impishly inertly instantly intensely intently inwardly ironically \
    jauntily jerkily joyfully joyously jubilantly keenly kindheartedly languidly lavishly lazily lightly \
    limply lithely loftily logically loosely loudly lovingly loyally luckily lushly madly magically \
    majestically markedly meekly mellowly merrily methodically mightily mildly mindfully modestly moodily \
    mournfully musically mutely mysteriously naively narrowly naturally neatly nervously nicely nimbly nobly \
    noisily normally obediently oddly openly orderly ornately outwardly painstakingly partly passively \
    patiently peacefully peculiarly pensively perfectly perkily placidly plainly playfully pleasantly \
    pluckily poetically politely ponderously powerfully precisely primly privately promptly properly proudly \
    prudently punctually purely quaintly quickly quietly quirkily radiantly randomly rapidly rarely readily \
    regally regularly relentlessly reliably reluctantly remarkably resolutely restfully restlessly richly \
    rigidly robustly roughly royally ruggedly sadly safely sagely scenically secretly securely sedately \
    serenely seriously severely shakily sharply sheepishly shortly shrewdly shyly silently simply sincerely \
    skillfully sleekly sleepily slightly slowly sluggishly slyly smartly smoothly smugly snugly soberly \
    softly solemnly somberly soothingly soundly sparingly spiritedly splendidly spryly stably starkly \
    staunchly steadfastly steadily steeply sternly stiffly stoically stoutly strangely strictly strongly \
    stubbornly sturdily suavely subtly suddenly sullenly surely sweetly swiftly tactfully tamely tartly \
    tastefully tediously tenderly tensely thickly thinly thoroughly thoughtfully tidily tightly timidly \
    tirelessly tranquilly trimly truly trustingly tunefully uneasily unevenly uniformly upwardly urgently \
    usefully vaguely valiantly vastly vibrantly vigilantly vigorously visibly vividly voluntarily warily \
    warmly watchfully weakly wearily weightlessly whimsically widely wildly willingly wisely wistfully \
    wittily woodenly wryly youthfully zealously zestfully";

/// Moods and virtues.
pub(super) const ABSTRACT: &str = "abandon ability absence acclaim accord ache acumen adventure affection agility alarm alertness \
    allegiance allure ambition amity amusement anger anguish anticipation anxiety apathy ardor aspiration \
    assurance astonishment attention audacity austerity authority awareness awe balance bashfulness beauty \
    belief belonging benevolence bewilderment bliss boldness boredom bravado bravery brevity brightness \
    brilliance buoyancy calmness candor caprice care caution celebration ceremony certainty chance change \
    chaos character charity charm cheer chivalry clarity cleverness comfort compassion composure concord \
    confidence confusion conscience consent constancy contentment conviction cordiality courage courtesy \
    craft craving creativity credence curiosity danger daydreams decency decorum dedication defiance \
    delicacy delight depth desire despair destiny determination devotion dignity diligence discipline \
    discovery discretion dismay distance dominion doubt drama dread drowsiness duty eagerness earnestness \
    ease ecstasy effort elation elegance eloquence emotion empathy emptiness endurance energy enigma \
    enthusiasm envy equality esteem eternity ethics euphoria evidence excess excitement expertise faith fame \
    fantasy fascination fashion fate fatigue favor fear ferocity fervor fidelity finesse firmness flair \
    flattery fluency folly fondness forbearance foresight forgiveness fortitude fortune freedom friendship \
    frugality fulfillment fun fury gaiety gallantry generosity genius gentleness glamor glee gloom glory \
    goodwill gossip grace grandeur gratitude gravity greed grief grit growth guidance guile guilt habit \
    happiness harmony haste hatred haughtiness health heartache heritage heroism hesitation history holiness \
    homage honesty honor hope hospitality humility humor hunger idleness ignorance imagination impatience \
    impulse industry inertia infancy ingenuity innocence insight inspiration instinct integrity intellect \
    intensity intrigue intuition invention irony isolation jealousy jest joviality joy jubilation judgment \
    justice keenness kindness kinship knowledge labor lament languor largesse laughter laziness leadership \
    learning legacy leisure levity liberty liveliness logic loneliness loss love loyalty luck luster luxury \
    majesty malice manners mastery maturity meaning melancholy memory mercy merit merriment method mirth \
    mischief misery moderation modesty momentum monotony mood morale morality motive music mystery myth need \
    nerve nobility nonsense nostalgia novelty obedience oblivion obsession oddity opinion optimism opulence \
    oratory origin pain panache paradise passion patience peace perfection peril persistence persuasion \
    pessimism philosophy piety pity plausibility play pleasure plenty poetry poise politeness power practice \
    praise precision prestige pretense pride privacy progress promise prosperity prowess prudence purity \
    purpose quality quest rage rapture reason rebellion recklessness regret relief remorse renown repose \
    reserve resolve respect restraint revelry reverence reverie rhythm rivalry romance routine sadness \
    sanctity sanity sarcasm satire satisfaction savvy scandal science secrecy security sensation serenity \
    severity shame sharpness silence silliness simplicity sincerity skill slumber sobriety solace solemnity \
    solidarity solitude sophistry sorrow speed spirit splendor spontaneity stamina stealth stillness \
    strength strife style sublimity success suffering supremacy surprise suspense suspicion swagger \
    sweetness symmetry sympathy tact talent taste temper temptation tenacity tenderness tension terror \
    thought thrift thrill thunderous timidity togetherness tolerance tradition tragedy tranquility triumph \
    trouble trust truth turmoil unity urgency valor vanity vapor variety vengeance venture verity vigilance \
    vigor virtue vision vitality vivacity want warmth weakness wealth weirdness whimsy willpower wisdom wit \
    wonder worry worship worth youth zeal zest";

/// What a mood does to something.
pub(super) const VERBS: &str = "absorbs accepts admires adorns alters amuses anchors animates anoints answers arouses astounds attends \
    awaits awakens balances banishes bathes becalms beckons befriends beguiles bestows betrays bewitches \
    blankets blesses blinds blurs brightens brings broadens brushes builds buries burnishes captures \
    caresses carries carves celebrates challenges charms chases cheers chills claims clarifies clothes \
    colors comforts commands confounds conquers consoles contains cools courts covers cradles creates crowds \
    crowns cures dampens darkens dazzles deepens defends defies defines delights deserves devours dignifies \
    disarms discovers disguises dissolves disturbs divides dominates drains dresses drowns dulls echoes \
    edges elevates emboldens embraces enchants encircles encloses encourages endows enfolds engulfs enlivens \
    enriches entertains entices entrances envelops erases escorts evokes exalts excites explains explores \
    exposes extends fans fascinates favors feeds fills finds flatters flavors floods follows forgets \
    forgives forms frames freezes freshens gathers gilds governs graces greets grips guards guides hallows \
    harbors haunts heals hears helps herds hides honors hushes ignites illumines imitates impresses improves \
    infuses inherits inspires interrupts invades invents invites joins kindles kisses knows lends lifts \
    lights loves lulls magnifies marks masks mellows melts mends mimics mirrors mocks moistens molds mourns \
    muffles nourishes nurtures obeys obscures occupies offers opens outshines overwhelms owns pacifies \
    paints pampers parts perfumes permeates pervades pierces pleases plunders polishes ponders possesses \
    praises preserves protects provokes punctuates purifies puzzles quenches questions quiets reaches \
    recalls receives refines reflects refreshes relieves remembers renews repairs rescues resists restores \
    reveals rewards ripens rocks rouses rules sanctifies satisfies savors scatters scents schools sculpts \
    seals seasons seduces seeks serves settles shades shakes sharpens shelters shields silences skirts \
    smothers softens soothes spares splits startles steadies stirs stretches strikes studies subdues \
    submerges suggests summons supports surpasses surprises surrounds sustains sways sweetens taints tames \
    tastes teaches tempers tempts tends terrifies thaws threatens tickles tints torments touches traces \
    trades traps troubles trusts tunes unfolds unites unmasks unsettles uplifts upsets values veils visits \
    wakes warms warns washes watches wearies weaves welcomes widens worships wounds wraps";

/// Given names.
pub(super) const NAMES: &str = "Abigail Ada Adele Adrian Agnes Aidan Aisha Alan Albert Alexis Alfred Alice Alma Alvin Amanda Amelia Amir \
    Amos Amy Andrea Angela Anita Anna Anton April Ariel Arnold Arthur Astrid Audrey Austin Barbara Basil \
    Beatrice Benjamin Bernard Bertha Bianca Boris Brenda Brian Bridget Bruno Calvin Camilla Carla Carlos \
    Carmen Caroline Casper Cecilia Celia Cesar Charles Chloe Claire Clara Clement Conrad Cora Cyril Dalia \
    Damon Daniel Daphne Darius David Deborah Delia Dennis Diana Dolores Dominic Dora Doris Dorothy Douglas \
    Duncan Edgar Edith Edmund Edna Edward Edwin Elena Eli Elias Elisa Eliza Ella Ellen Elliot Elsa Emil \
    Emily Emma Enid Enrico Eric Erika Ernest Esther Ethan Eugene Eva Evan Evelyn Fatima Felix Fernando Fiona \
    Flora Florence Frances Francis Frank Frederick Gabriel Gail Gemma Geoffrey George Gerald Gilbert Gina \
    Giovanni Gladys Glenn Gloria Gordon Greta Gustav Hannah Harold Harriet Harry Hassan Hector Hedwig Helen \
    Henry Herbert Hilda Homer Horace Howard Hubert Hugo Ian Ibrahim Ida Ignatius Igor Ines Ingrid Irene Irma \
    Isaac Isabel Ivan Ivor Jacob James Jane Jasper Jean Jerome Jessica Joan Joel Johanna John Jonas Jorge \
    Joseph Josephine Joshua Juan Judith Julia Julian Juno Karen Karl Kate Kenneth Kevin Kira Lars Laura \
    Lawrence Leah Leo Leon Leonard Leroy Leslie Levi Lewis Lila Linda Lionel Lisa Lois Lorenzo Louis Louisa \
    Lucas Lucia Lucy Luther Lydia Mabel Malcolm Manuel Marcus Margaret Maria Marian Mario Marion Marta \
    Martin Mary Matilda Matthew Maud Maurice Max Maya Melvin Mercy Michael Mildred Milton Mina Miriam \
    Mohammed Molly Monica Morris Moses Muriel Myra Nadia Nancy Naomi Nathan Neil Nelson Nicholas Nina Noah \
    Nora Norma Norman Olga Oliver Oscar Otto Owen Pablo Pamela Patricia Paul Paula Pedro Percy Perry Peter \
    Petra Philip Phoebe Quentin Rachel Ralph Ramon Raphael Raymond Rebecca Regina Rita Robert Roger Roland \
    Roman Rosa Roy Rudolf Rufus Rupert Russell Ruth Sabina Sally Samuel Sandra Sara Saul Selma Serena Sharon \
    Sheila Sidney Simon Sofia Stanley Stella Stephen Susan Sybil Sylvia Tamara Teresa Thelma Theodore Thomas \
    Timothy Tobias Toby Tom Ulrich Ursula Valerie Vera Victor Vincent Viola Virginia Vivian Wallace Walter \
    Wanda Warren Wendy Wilbur William Winifred Xavier Yolanda Yusuf Yvonne Zachary Zelda Zoe";

/// Cities.
pub(super) const PLACES: &str = "Aachen Aberdeen Accra Adelaide Agra Aleppo Algiers Alicante Amman Amsterdam Ankara Antwerp Arezzo Arles \
    Assisi Asuncion Athens Auckland Augsburg Avignon Baghdad Baku Bali Bamako Bangkok Barcelona Basel Bath \
    Beirut Belfast Belgrade Bergen Berlin Bern Bilbao Bogota Bologna Bombay Bonn Bordeaux Boston Brasilia \
    Bremen Brescia Brest Brighton Brisbane Bristol Bruges Brussels Bucharest Budapest Buffalo Cairo Calais \
    Calcutta Calgary Cambridge Canberra Canterbury Caracas Cardiff Carthage Catania Chester Chicago Cologne \
    Colombo Copenhagen Cordoba Corfu Cork Cracow Dakar Dallas Damascus Delft Delhi Denver Detroit Dhaka \
    Dijon Doha Dortmund Dover Dresden Dublin Dubrovnik Dundee Durban Edinburgh Essen Exeter Ferrara Florida \
    Frankfurt Galway Gdansk Geneva Genoa Ghent Glasgow Granada Graz Grenoble Haifa Halifax Hamburg Hanoi \
    Hanover Havana Heidelberg Helsinki Houston Innsbruck Istanbul Izmir Jaipur Jakarta Jena Kabul Karachi \
    Kassel Kiel Kiev Kingston Kobe Kyoto Lagos Lahore Lausanne Leeds Leiden Leipzig Liege Lille Lima \
    Limerick Linz Lisbon Liverpool London Lourdes Lucca Lucerne Lund Luxor Lyon Madras Madrid Mainz Malaga \
    Malmo Manila Mantua Marrakesh Marseille Mecca Melbourne Memphis Messina Metz Mexico Milan Minsk Modena \
    Mombasa Montreal Moscow Munich Murcia Nairobi Nantes Naples Narvik Newport Nice Norwich Odessa Oporto \
    Orleans Osaka Oslo Ottawa Oxford Padua Palermo Panama Paris Parma Pavia Perth Perugia Pisa Plymouth \
    Portland Prague Pretoria Quebec Quito Rabat Ravenna Reims Rennes Riga Rochester Rome Rostock Rotterdam \
    Rouen Salerno Salzburg Santiago Sarajevo Seattle Seoul Seville Sheffield Siena Sparta Split Stockholm \
    Stuttgart Sydney Syracuse Tampa Tangier Tbilisi Tehran Thebes Tirana Tokyo Toledo Toronto Toulouse \
    Trento Trier Trieste Tripoli Troy Tunis Turin Uppsala Utrecht Valencia Venice Verona Versailles Vicenza \
    Vienna Vilnius Warsaw Weimar Wellington Winchester Winnipeg Worcester York Yorkshire Zagreb Zanzibar \
    Zurich";

/// Kinds of short works.
pub(super) const GENRES: &str = "adagio allegory animation anthem aria arrangement ballet cabaret carol cartoon chant chapter charade \
    chronicle collage comedy composition daydream diagram dialogue diorama display drawing duet elegy \
    epilogue episode essay etude exercise exhibit experiment fanfare fantasia farce film fresco fugue game \
    geometry idyll improvisation interlude jingle lesson lullaby lyric manuscript masque meditation melody \
    miniature minuet montage mural nocturne notion novella ode opus overture painting panorama pantomime \
    parable parody pastoral performance picture poem portrait prelude procession prologue proverb psalm \
    puppetry quartet refrain rehearsal revue rhapsody riddle ritual rondo saga sampler scherzo sequence \
    serenade sermon silhouette sketch skit soliloquy sonata sonnet spectacle stanza story study suite \
    symphony tableau tale tango theorem toccata trick vignette vista whim";
